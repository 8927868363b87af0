"""`pdqat train --from RUN`: what it takes over, and that it trains on the network of the run."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from pdqat.allocation.plan_file import PlanModel, read_plan, write_plan
from pdqat.cli import main
from pdqat.precision import Precision
from pdqat.sensitivity.subject import Subject
from pdqat.training import Run
from pdqat.training.checkpoints import load_checkpoint

QUICK = ["--train-images", "128", "--batch-size", "64", "--epochs", "1"]
STANDING_STILL = ["--epochs", "1", "--lr", "1e-30", "--dual-rate", "0"]
KEPT = "stages.1.0.conv0"


def layers_of(run: Run) -> list[str]:
    return list(run.summary()["plans"]["2-bit"])


def write(path: Path, layers: dict[str, str]) -> str:
    path.write_text("[layers]\n" + "".join(f"'{layer}' = '{bits}'\n" for layer, bits in layers.items()))
    return str(path)


def full_weight(run: Run) -> Tensor:
    """What the full-precision view computes the layer with."""
    return Subject.of_run(run, 1).net.layers[KEPT].full_weight().detach()


@pytest.mark.parametrize("by", ["plan", "layers"])
def test_a_layer_that_is_left_out_stays_what_it_was_in_full_precision(
    relative_run: Run, tmp_path: Path, by: str
) -> None:
    rest = {layer: "2" for layer in layers_of(relative_run) if layer != KEPT}
    flags = {
        "plan": ["--plan", write(tmp_path / "plan.toml", rest)],
        "layers": ["--layers", f"{KEPT}=full"],
    }
    common = ["train", "--from", str(relative_run.path), *STANDING_STILL, "--out", str(tmp_path / "run")]
    assert main([*common, *flags[by]]) == 0
    run = Run.open(tmp_path / "run")
    torch.testing.assert_close(full_weight(run), full_weight(relative_run))
    assert next(iter(run.summary()["plans"].values())) == {**dict.fromkeys(layers_of(relative_run), "2"), KEPT: "full"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--layers", "stem=8"], "did not quantise the layer stem: to read its weights in low precision would make"),
        (["--layers", f"{KEPT}=full", "--bits", "2", "4"], f"quantises the layer {KEPT}: to leave it out would make"),
        (["--layers", f"{KEPT}=full", "--budget", "3 bits", "--epochs", "2"], "name it in a plan, as 'full' if it is"),
    ],
)
def test_what_would_make_another_network_of_it_is_refused(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], sentence: str
) -> None:
    out = tmp_path / "run"
    # two plans can't take over the norms of one, so they start from full precision
    source = full_precision_run(tmp_path) if "--bits" in flags else relative_run
    assert main(["train", "--from", str(source.path), *flags, "--out", str(out)]) == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def full_precision_run(folder: Path) -> Run:
    assert main(["train", *QUICK, "--method", "full", "--out", str(folder / "full")]) == 0
    return Run.open(folder / "full")


def test_under_a_budget_layers_are_pinned_beside_a_plan(relative_run: Run, tmp_path: Path) -> None:
    start = write(tmp_path / "plan.toml", dict.fromkeys(layers_of(relative_run), "2"))
    arguments = ["--plan", start, "--budget", "3 bits", "--layers", f"{KEPT}=2", "--epochs", "2"]
    assert main(["train", "--from", str(relative_run.path), *arguments, "--out", str(tmp_path / "run")]) == 0
    plan = Run.open(tmp_path / "run").summary()["plans"]["mixed"]
    assert plan[KEPT] == "2"
    assert set(plan.values()) != {"2"}, "others were raised"


def test_layers_in_a_file_beside_a_plan_are_refused(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write(tmp_path / "plan.toml", dict.fromkeys(layers_of(relative_run), "2"))
    (tmp_path / "config.toml").write_text(f"[layers]\n'{KEPT}' = '8'\n")
    assert main(["train", "--plan", plan, "--config", str(tmp_path / "config.toml"), "--out", str(tmp_path / "x")]) == 2
    assert "--plan names the precision of each layer: give no --layers with it" in capsys.readouterr().err


def test_training_goes_on_under_a_plan_with_weights_norms_and_multipliers(relative_run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    arguments = ["--budget", "2.5 bits", "--images", "50", "--out", str(plan), "--pin", "stages.0.0.conv0=full"]
    assert main(["plan", str(relative_run.path), *arguments]) == 0
    common = ["train", "--from", str(relative_run.path), "--plan", str(plan)]
    assert main([*common, "--epochs", "1", "--dual-rate", "0", "--lr", "1e-30", "--out", str(tmp_path / "next")]) == 0
    run = Run.open(tmp_path / "next")
    config, before = run.config(), relative_run.config()
    chosen = read_plan(plan)
    assert {layer: Precision.parse(bits) for layer, bits in config.plan.items()} == chosen
    assert (config.train_images, config.layer_tolerance) == (before.train_images, before.layer_tolerance)
    best = {each["where"]: each["multiplier"] for each in relative_run.summary()["constraints"]}
    carried = {each["where"]: each["multiplier"] for each in run.metrics()[-1]["constraints"]}
    assert carried == {where: best[where] for where in carried}
    assert "stages.0.0.conv0" not in carried
    assert len(carried) == len(best) - 1
    old, new = (load_checkpoint(each.best)["model"] for each in (relative_run, run))
    norms = [key for key in new if key.endswith("views.mixed.weight")]
    assert norms
    for key in norms:
        torch.testing.assert_close(new[key], old[key.replace("mixed", "2-bit")])
        assert not torch.equal(new[key], torch.ones_like(new[key]))
    torch.testing.assert_close(new["stages.1.0.conv0.weight"], old["stages.1.0.conv0.weight"])
    assert run.summary()["plans"]["mixed"]["stages.0.0.conv0"] == "full"


def test_what_speaks_of_layers_is_left_behind_by_a_method_without_them(tmp_path: Path) -> None:
    blocks = ["--tolerances", "stages.0.*=0.3", "--level", "block", "--blocks", "stages.0.0"]
    assert main(["train", *QUICK, *blocks, "--out", str(tmp_path / "first")]) == 0
    common = ["train", "--from", str(tmp_path / "first")]
    assert main([*common, "--method", "ste", "--out", str(tmp_path / "ste")]) == 0
    assert Run.open(tmp_path / "ste").config().tolerances == {}
    assert main([*common, "--level", "layer", "--out", str(tmp_path / "layers")]) == 0
    found = Run.open(tmp_path / "layers").config()
    assert (found.blocks, found.tolerances) == ([], {"stages.0.*": 0.3})


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--bits", "4"], "--plan names the precision of each layer: give no --bits with it"),
        (["--validation", "0.5"], "so with its validation, 0.1; give no --validation"),
        (["--method", "full"], "a plan is given, but method 'full' trains in full precision only"),
        (["--width", "2"], "is of preresnet-small of width 1, but the model to train is preresnet-small of width 2"),
        (["--model", "preresnet20"], "but the model to train is preresnet20 of width 1"),
        (["--seed", "5"], "goes on with the run's own split of the images, so with its seed, 0; give no --seed"),
        (["--preset", "paper"], "give no preset with it"),
        (["--config", "preset.toml"], "give no preset with it"),
        (["--init", "other.pt"], "give no --init with it"),
    ],
)
def test_flags_that_contradict_plan_or_run_are_refused(
    relative_run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    sentence: str,
) -> None:
    plan = dict.fromkeys(layers_of(relative_run), Precision(4, 4))
    write_plan(tmp_path / "plan.toml", plan, "by hand", PlanModel("preresnet-small", 1))
    (tmp_path / "preset.toml").write_text('preset = "paper"\n')
    monkeypatch.chdir(tmp_path)
    common = ["train", "--from", str(relative_run.path.absolute()), "--plan", str(tmp_path / "plan.toml")]
    assert main([*common, *flags, "--out", str(tmp_path / "run")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_configuration_file_does_not_undo_plan_and_start(relative_run: Run, tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", dict.fromkeys(layers_of(relative_run), Precision(4, 4)), "by hand")
    config = ["--config", str(relative_run.config_file), "--epochs", "1"]
    common = ["train", "--from", str(relative_run.path), "--plan", str(tmp_path / "plan.toml")]
    assert main([*common, *config, "--out", str(tmp_path / "run")]) == 0
    found = Run.open(tmp_path / "run").config()
    assert set(found.plan.values()) == {"4"}
    assert found.carry
    assert found.init == str(relative_run.best)


def test_going_on_under_a_plan_keeps_the_outputs_tolerance(relative_run: Run, tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", dict.fromkeys(layers_of(relative_run), Precision(1, 1)), "by hand")
    common = ["train", "--from", str(relative_run.path), "--epochs", "1"]
    flags: dict[str, list[str]] = {"plan": ["--plan", str(tmp_path / "plan.toml")], "bits": ["--bits", "1"]}
    found = {}
    for name, each in flags.items():
        assert main([*common, *each, "--out", str(tmp_path / name)]) == 0
        constraints = Run.open(tmp_path / name).summary()["constraints"]
        found[name] = next(each["tolerance"] for each in constraints if each["kind"] == "output")
    assert found == pytest.approx({"plan": 1 / 9, "bits": 1.0})
