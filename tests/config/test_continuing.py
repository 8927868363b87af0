"""`pdqat train --from RUN`: what it takes over, and that it trains on the network of the run."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from finished_run import finished_run
from pdqat.cli import main
from pdqat.config.new_run import Given, Ready, new_run
from pdqat.config.presets import config_of
from pdqat.config.trained import Trained
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.precision import FULL, Precision
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from pdqat.runs.plan_file import PlanModel, read_plan, write_plan
from pdqat.task import Problem

KEPT = "stages.1.0.conv0"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished_run(
        tmp_path_factory.mktemp("source") / "run", quantizer="dorefa", layer_tolerance=0.2, dual_rate=0.5
    )


@pytest.fixture(scope="module")
def full_precision_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished_run(tmp_path_factory.mktemp("full") / "run", method="full")


def layers_of(run: Run) -> list[str]:
    return list(run.summary()["plans"]["2-bit"])


def written(path: Path, layers: dict[str, str]) -> Path:
    path.write_text("[layers]\n" + "".join(f"'{layer}' = '{bits}'\n" for layer, bits in layers.items()))
    return path


def continued(run: Run, out: Path, plan: Path | None = None, **flags: Any) -> Ready:
    """What would be trained now: the new run with all that it starts from."""
    return new_run(Given({"epochs": 1, **flags}, plan=plan, source=run.path, out=out))


def full_weight(problem: Problem) -> Tensor:
    """What the full-precision view computes the layer with."""
    return problem.net.layers[KEPT].full_weight().detach()


@pytest.mark.parametrize("by", ["plan", "layers"])
def test_a_layer_that_is_left_out_stays_what_it_was_in_full_precision(run: Run, tmp_path: Path, by: str) -> None:
    rest = {layer: "2" for layer in layers_of(run) if layer != KEPT}
    plan = written(tmp_path / "plan.toml", rest) if by == "plan" else None
    flags = {} if by == "plan" else {"layers": {KEPT: "full"}}
    ready = continued(run, tmp_path / "run", plan, **flags)
    torch.testing.assert_close(full_weight(ready.problem), full_weight(Trained.open(run.path).problem))
    (precisions,) = ready.problem.net.plans.values()
    assert precisions.as_text() == {**dict.fromkeys(layers_of(run), "2"), KEPT: "full"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--layers", "stem=8"], "did not quantise the layer stem: to read its weights in low precision would make"),
        (["--layers", f"{KEPT}=full", "--bits", "2", "4"], f"quantises the layer {KEPT}: to leave it out would make"),
        (["--layers", f"{KEPT}=full", "--budget", "3 bits", "--epochs", "2"], "name it in a plan, as 'full' if it is"),
    ],
)
def test_what_would_make_another_network_of_it_is_refused(
    run: Run,
    full_precision_run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    sentence: str,
) -> None:
    out = tmp_path / "run"
    # two plans can't take over the norms of one, so they start from full precision
    source = full_precision_run if "--bits" in flags else run
    assert main(["train", "--from", str(source.path), *flags, "--out", str(out)]) == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_under_a_budget_layers_are_pinned_beside_a_plan(run: Run, tmp_path: Path) -> None:
    start = written(tmp_path / "plan.toml", dict.fromkeys(layers_of(run), "2"))
    arguments = ["--plan", str(start), "--budget", "3 bits", "--layers", f"{KEPT}=1", "--budget-bits", "3", "4"]
    out = ["--epochs", "2", "--out", str(tmp_path / "run")]
    assert main(["train", "--from", str(run.path), *arguments, *out]) == 0
    plan = Run.open(tmp_path / "run").summary()["plans"]["mixed"]
    assert plan.pop(KEPT) == "1"
    assert set(plan.values()) <= {"3", "4"}


def test_layers_in_a_file_beside_a_plan_are_refused(run: Run, tmp_path: Path) -> None:
    plan = written(tmp_path / "plan.toml", dict.fromkeys(layers_of(run), "2"))
    (tmp_path / "config.toml").write_text(f"[layers]\n'{KEPT}' = '8'\n")
    with pytest.raises(InputError, match="--plan names the precision of each layer: give no --layers with it"):
        new_run(Given({}, config=tmp_path / "config.toml", plan=plan, out=tmp_path / "run"))


def test_training_goes_on_under_a_plan_with_weights_norms_and_multipliers(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    arguments = ["--budget", "8 bits", "--images", "20", "--out", str(plan), "--pin", "stages.0.0.conv0=full"]
    assert main(["plan", str(run.path), *arguments]) == 0
    ready = continued(run, tmp_path / "next", plan)
    before = config_of(run)
    assert {layer: Precision.parse(bits) for layer, bits in ready.config.plan.items()} == read_plan(plan)
    assert (ready.config.train_images, ready.config.layer_tolerance) == (before.train_images, before.layer_tolerance)
    assert ready.problem.net.plans["mixed"]["stages.0.0.conv0"] == FULL
    assert isinstance(ready.problem, Lagrangian)
    multipliers = {entry["where"]: entry["multiplier"] for entry in run.summary()["constraints"]}
    named = ready.problem.duals.named()
    taken = {bound.where: float(named[bound.name]) for bound in ready.problem.bounds}
    assert taken == {where: multipliers[where] for where in taken}
    assert "stages.0.0.conv0" not in taken
    assert len(taken) == len(multipliers) - 1
    old, new = load_checkpoint(run.best)["model"], ready.problem.net.state_dict()
    norms = [key for key in new if key.endswith("views.mixed.weight")]
    assert norms
    for key in norms:
        assert torch.equal(new[key], old[key.replace("mixed", "2-bit")])
        assert not torch.equal(new[key], torch.ones_like(new[key]))
    assert torch.equal(new["stages.1.0.conv0.weight"], old["stages.1.0.conv0.weight"])


def test_a_training_that_stands_still_ends_with_what_it_started_from(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    still = ["--epochs", "1", "--lr", "1e-30", "--dual-rate", "0"]
    arguments = ["--layers", f"{KEPT}=full", *still, "--out", str(tmp_path / "next")]
    assert main(["train", "--from", str(run.path), *arguments]) == 0
    assert f"{KEPT}: full precision by the plan" in capsys.readouterr().out
    later, before = (
        {bound["where"]: bound["multiplier"] for bound in summary["constraints"]}
        for summary in (Run.open(tmp_path / "next").summary(), run.summary())
    )
    del before[KEPT]
    assert later == before


def test_what_speaks_of_layers_is_left_behind_by_a_method_without_them(tmp_path: Path) -> None:
    blocks = {"tolerances": {"stages.0.*": 0.3}, "level": "block", "blocks": ["stages.0.0"]}
    first = finished_run(tmp_path / "first", **blocks)
    assert continued(first, tmp_path / "ste", method="ste").config.tolerances == {}
    config = continued(first, tmp_path / "layers", level="layer").config
    assert (config.blocks, config.tolerances) == ([], {"stages.0.*": 0.3})


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--bits", "4"], "--plan names the precision of each layer: give no --bits with it"),
        (["--validation", "0.5"], "so with its validation, 0.03; give no --validation"),
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
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    sentence: str,
) -> None:
    plan = dict.fromkeys(layers_of(run), Precision(4, 4))
    write_plan(tmp_path / "plan.toml", plan, "by hand", PlanModel("preresnet-small", 1))
    (tmp_path / "preset.toml").write_text('preset = "paper"\n')
    monkeypatch.chdir(tmp_path)
    common = ["train", "--from", str(run.path.absolute()), "--plan", str(tmp_path / "plan.toml")]
    assert main([*common, *flags, "--out", str(tmp_path / "run")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_configuration_file_does_not_undo_plan_and_start(run: Run, tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", dict.fromkeys(layers_of(run), Precision(4, 4)), "by hand")
    given = Given({}, config=run.config_file, plan=tmp_path / "plan.toml", source=run.path, out=tmp_path / "run")
    config = new_run(given).config
    assert set(config.plan.values()) == {"4"}
    assert config.take_over
    assert config.init == str(run.best)
    assert config_of(Run.open(tmp_path / "run")) == config


def test_going_on_under_a_plan_keeps_the_outputs_tolerance(run: Run, tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", dict.fromkeys(layers_of(run), Precision(1, 1)), "by hand")
    under_plan = continued(run, tmp_path / "plan", tmp_path / "plan.toml").problem
    with_bits = continued(run, tmp_path / "bits", bits=["1"]).problem
    assert under_plan.bounds[0].tolerance == pytest.approx(1 / 9)
    assert with_bits.bounds[0].tolerance == 1.0


def test_a_summary_without_evidence_is_refused(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    copied = Run.open(tmp_path / "run")
    copied.write_summary({**copied.summary(), "constraints": [{}]})
    with pytest.raises(InputError, match=r"summary.json is damaged: Object missing required field `name`"):
        continued(copied, tmp_path / "next")
    assert not (tmp_path / "next").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nowhere": "2"}, "plan 'mixed' names the layer 'nowhere', which the model does not have"),
        ({"stages.0.0.conv0": "9"}, "bits must be from 1 to 8, not 9"),
        (None, r"is not a plan: it names no layer; it must hold one table, [layers]"),
    ],
)
def test_a_plan_of_another_model_or_none_at_all_is_refused(
    run: Run, tmp_path: Path, change: dict[str, str] | None, sentence: str
) -> None:
    layers = {} if change is None else {**dict.fromkeys(layers_of(run), "4"), **change}
    with pytest.raises(InputError) as refused:
        continued(run, tmp_path / "run", written(tmp_path / "plan.toml", layers))
    assert sentence in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_layer_kept_high_by_a_plan_computes_what_it_computed_in_full_precision(run: Run, tmp_path: Path) -> None:
    plan = written(tmp_path / "plan.toml", {**dict.fromkeys(layers_of(run), "8"), KEPT: "full"})
    net = continued(run, tmp_path / "run", plan).problem.net
    layer, x = net.layers[KEPT], torch.rand(2, 8, 8, 8)
    with torch.no_grad(), net.under("mixed"):
        under_plan = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(under_plan, layer(x))
    assert not torch.equal(layer.full_weight(), layer.weight)
