"""TrainConfig: typed, validated, written and read again."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from pdqat.config.new_run import Given, new_run
from pdqat.config.presets import resolve_config
from pdqat.config.train_config import Method, TrainConfig
from pdqat.errors import InputError
from pdqat.runs.forms import read_toml

KEYS = [field.name for field in dataclasses.fields(TrainConfig)]

NOTHING_AS_DEFAULT: dict[str, Any] = {
    "data": "folder",
    "data_path": "pictures/my data",
    "image_size": 48,
    "train_images": 512,
    "validation": 0.25,
    "augment": False,
    "normalize": False,
    "model": "resnet32",
    "width": 3,
    "init": "weights.safetensors",
    "take_over": True,
    "bits": ["w4a8", "1"],
    "layers": {"stages.0.0.conv0": "8", "*.conv1": "full"},
    "ends": "w8a8",
    "budget_bits": ["2", "w3a4"],
    "replan": [0.4],
    "quantizer": "uniform-channel",
    "integer_sums": True,
    "method": "pdqat-layers",
    "objective": "full",
    "gradient": "norms",
    "tied_norms": False,
    "output_distance": "cross-entropy",
    "output_tolerance": 0.7,
    "loss_tolerance": 0.4,
    "teacher": "runs/teacher",
    "level": "block",
    "blocks": ["stages.0.0", "stages.2.0"],
    "layer_distance": "squared",
    "layer_tolerance": 0.056,
    "tolerances": {"stages.2.*": 0.11, "head": 0.0},
    "tolerance_price": 0.2,
    "dual_rate": 0.3,
    "dual_rule": "nupi",
    "layer_sample": 0.5,
    "view_sample": 0.75,
    "dual_damping": 0.5,
    "dual_nu": 0.9,
    "dual_restart": True,
    "dual_every": 7,
    "dual_slack": "fresh",
    "dual_samples": 1000,
    "epochs": 17,
    "batch_size": 33,
    "optimizer": "adam",
    "lr": 1 / 3,
    "schedule": "steps",
    "milestones": [0.3, 0.6],
    "decay": 0.5,
    "accumulate": 3,
    "clip_norm": 0.75,
    "warm_up": 0.25,
    "progressive": ["8", "w4a8"],
    "flip_rate": 0.01,
    "norm_batches": 3,
    "patience": 4,
    "seed": 11,
    "device": "cuda:1",
    "threads": 2,
    "amp": True,
    "compile": True,
    "compile_fallback": True,
    "sync_norms": False,
    "log": ["mlflow", "tensorboard"],
}


def written(config: TrainConfig) -> str:
    return tomli_w.dumps(config.as_options())


def read(path: Path, text: str) -> TrainConfig:
    path.write_text(text, encoding="utf-8")
    return resolve_config(None, read_toml(path.read_bytes(), path), {})


def test_every_key_survives_the_way_through_the_file(tmp_path: Path) -> None:
    config = TrainConfig(**NOTHING_AS_DEFAULT)
    same = [key for key in KEYS if getattr(config, key) == getattr(TrainConfig(), key)]
    assert same == ["plan", "budget", "method"], "layers exclude a plan, level 'block' a budget and other methods"
    assert read(tmp_path / "config.toml", written(config)) == config
    planned = TrainConfig(plan={"stages.0.0.conv0": "w4a8", "head": "full"})
    assert read(tmp_path / "planned.toml", written(planned)) == planned
    within = TrainConfig(budget="40 KB")
    assert read(tmp_path / "within.toml", written(within)) == within


def test_a_plan_leaves_no_room_for_layer_rules() -> None:
    with pytest.raises(InputError, match="layers are given beside a plan"):
        TrainConfig(plan={"head": "2"}, layers={"head": "4"})


def test_a_plan_is_for_methods_with_low_precision() -> None:
    with pytest.raises(InputError, match="a plan is given, but method 'full' trains in full precision only"):
        TrainConfig(plan={"head": "2"}, method=Method.FULL)


def test_the_file_has_every_key_that_has_a_value() -> None:
    without_value = [key for key in KEYS if getattr(TrainConfig(), key) is None]
    assert without_value == [
        "data_path",
        "train_images",
        "init",
        "budget",
        "output_tolerance",
        "loss_tolerance",
        "teacher",
        "layer_tolerance",
        "tolerance_price",
        "dual_samples",
        "clip_norm",
        "flip_rate",
        "threads",
    ]
    text = written(resolve_config(None, {}, {}))
    assert all(f"{key} = " in text or f"[{key}]" in text for key in KEYS if key not in without_value)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("bits", ["0"], "from 1 to 8"),
        ("bits", ["9"], "from 1 to 8"),
        ("bits", ["x"], "from 1 to 8"),
        ("bits", ["2", "w4a"], "from 1 to 8"),
        ("bits", [""], "from 1 to 8"),
        ("bits", [], "at least one"),
        ("bits", "2", "a list"),
        ("bits", [2.5], "text"),
        ("layers", {"head": "9"}, "from 1 to 8"),
        ("layers", ["head=9"], "a table"),
        ("output_tolerance", -0.1, "from 0 upwards"),
        ("output_tolerance", math.nan, "from 0 upwards"),
        ("output_tolerance", math.inf, "from 0 upwards"),
        ("layer_tolerance", -1, "from 0 upwards"),
        ("layer_tolerance", math.nan, "from 0 upwards"),
        ("layer_tolerance", "small", "a number"),
        ("tolerances", {"head": -0.5}, "from 0 upwards"),
        ("tolerances", {"head": math.nan}, "from 0 upwards"),
        ("tolerances", {"head": math.inf}, "from 0 upwards"),
        ("tolerances", 0.5, "a table"),
        ("lr", math.nan, "above 0"),
        ("lr", math.inf, "above 0"),
        ("lr", 0, "above 0"),
        ("lr", True, "a number"),
        ("decay", 0.0, "above 0"),
        ("validation", 0, "above 0 and below 1"),
        ("validation", 1, "above 0 and below 1"),
        ("validation", math.nan, "above 0 and below 1"),
        ("milestones", [0.5, 1.0], "above 0 and below 1"),
        ("milestones", [0.5, "end"], "a number"),
        ("dual_rate", -0.01, "from 0 upwards"),
        ("dual_nu", 1.0, "from 0 to below 1"),
        ("dual_nu", math.nan, "from 0 to below 1"),
        ("epochs", 0, "from 1 upwards"),
        ("epochs", 2.5, "a whole number"),
        ("epochs", "3", "a whole number"),
        ("batch_size", 1, "from 2 upwards"),
        ("seed", -1, "from 0 to 4294967295"),
        ("seed", 2**40, "from 0 to 4294967295"),
        ("threads", 0, "from 1 to 1024"),
        ("device", "gpu", "cpu, cuda, mps"),
        ("device", "cuda:x", "cpu, cuda, mps"),
        ("schedule", "cosine", "steps, one-cycle"),
        ("compile", "yes", "true or false"),
        ("compile", 1, "true or false"),
        ("amp", "bfloat16", "true or false"),
        ("layer_sample", 0.0, "above 0 and at most 1"),
        ("layer_sample", 1.5, "above 0 and at most 1"),
        ("layer_sample", math.nan, "above 0 and at most 1"),
        ("data", "imagenet", "digits, cifar10, cifar100, folder"),
        ("data", 3.5, "text"),
        ("model", "vgg", "preresnet20"),
        (
            "quantizer",
            "ternary",
            "dorefa, dorefa-unscaled, dorefa-int8, dorefa-bytes, dorefa-lsq, normal, normal-bytes, uniform, "
            "uniform-channel, lsq",
        ),
        ("method", "magic", "full, ste, pdqat-output, pdqat-layers"),
        ("method", 3, "full, ste, pdqat-output, pdqat-layers"),
        ("gradient", "wrong", "exact, norms, straight-through"),
        ("tied_norms", "yes", "true or false"),
        ("accumulate", 0, "from 1 upwards"),
        ("accumulate", 1.5, "a whole number"),
        ("clip_norm", 0, "above 0"),
        ("progressive", ["4", "9"], "from 1 to 8"),
        ("progressive", "4", "a list"),
        ("flip_rate", 0.0, "above 0 and at most 1"),
        ("flip_rate", 1.5, "above 0 and at most 1"),
        ("clip_norm", math.nan, "above 0"),
        ("output_distance", "hamming", "cross-entropy, kl, squared"),
        ("layer_distance", "hamming", "squared, absolute, relative"),
        ("level", "pixel", "layer, channel, block"),
        ("dual_rule", "momentum", "ascent, nupi"),
        ("dual_slack", "stale", "fresh, running"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_what_is_allowed(key: str, value: Any, allowed: str) -> None:
    with pytest.raises(InputError) as refusal:
        resolve_config(None, {key: value}, {})
    message = str(refusal.value)
    assert message.startswith(key)
    assert allowed in message
    culprit = value[-1] if isinstance(value, list) and value else value
    told = next(iter(culprit.values())) if isinstance(culprit, dict) else culprit
    assert repr(told) in message or repr(float(told)) in message


@pytest.mark.parametrize(("key", "value"), [("epochs", 10**30), ("lr", 10**400), ("seed", 2**64), ("bits", [10**30])])
def test_a_whole_number_too_large_for_a_machine_is_refused(key: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{key} .*below 2\\^63"):
        resolve_config(None, {key: value}, {})


@pytest.mark.parametrize("key", ["learning_rate", "Epochs", "out"])
def test_an_unknown_key_is_refused_and_the_known_ones_are_named(key: str) -> None:
    with pytest.raises(InputError, match=f"unknown key '{key}'") as refusal:
        resolve_config(None, {key: 1}, {})
    assert all(known in str(refusal.value) for known in KEYS)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"level": "block"}, "needs the names of the blocks"),
        ({"blocks": ["stages.0.0"]}, "set level to 'block'"),
        ({"quantizer": "lsq", "gradient": "norms"}, "use method 'ste', or gradient 'straight-through'"),
        ({"data": "folder"}, "needs data_path"),
        ({"method": "ste", "teacher": "run"}, "teacher is of constrained training, which method 'ste' is not"),
        ({"method": "full", "loss_tolerance": 0.1}, "loss_tolerance is of constrained training"),
        ({"compile_fallback": True}, "compile is not; set both"),
    ],
)
def test_values_that_do_not_go_together_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        resolve_config(None, values, {})


@pytest.mark.parametrize(
    "content",
    [b"epochs = ", b"epochs = 1\nepochs = 2\n", b"\xff\xfe", b"seed = " + b"9" * 5000],
    ids=["unfinished", "twice", "not text", "huge"],
)
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"can't read the configuration .*config.toml"):
        read_toml(path.read_bytes(), path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"can't read the configuration .*No such file"):
        new_run(Given(config=tmp_path / "config.toml"))


def test_whole_numbers_pass_for_bits_and_for_numbers() -> None:
    config = resolve_config(None, {"bits": [2, "w4a8"], "layers": {"head": 8}, "layer_tolerance": 1}, {})
    assert config.bits == ["2", "w4a8"]
    assert config.layers == {"head": "8"}
    assert isinstance(config.layer_tolerance, float)
