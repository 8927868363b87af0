"""`pdqat plan`, and training on under its plans, through the command line."""

import dataclasses
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pdqat.allocation.measure import measure_under
from pdqat.allocation.plan_file import PlanModel, read_plan, write_plan
from pdqat.cli import main
from pdqat.errors import InputError
from pdqat.layers.norm import PrecisionNorm
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.sensitivity.subject import Subject
from pdqat.training import Run
from pdqat.training.setup import Setup


def test_a_summary_without_evidence_is_refused(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(relative_run.path, tmp_path / "run")
    summary = Run.open(tmp_path / "run").summary_file
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"constraints": [{}]}))
    assert main(["train", "--from", str(tmp_path / "run"), "--out", str(tmp_path / "next")]) == 2
    assert "summary.json is damaged: it holds no summary" in capsys.readouterr().err


@pytest.mark.parametrize("rank", ["dual", "distance", "random"])
@pytest.mark.parametrize("budget", ["1.5 bits", "3 KB", "3 MBOPs"])
def test_a_plan_keeps_to_its_budget(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], rank: str, budget: str
) -> None:
    path = tmp_path / "plan.toml"
    arguments = ["--budget", budget, "--rank", rank, "--images", "50", "--out", str(path)]
    assert main(["plan", str(relative_run.path), *arguments]) == 0
    assert "predicted cost" in capsys.readouterr().out
    plan, sizes = read_plan(path), Subject.of_run(relative_run, 1).sizes
    weights = sum(sizes[layer].parameters * (each.weight or 32) for layer, each in plan.items())
    total = sum(size.parameters for size in sizes.values())
    operations = sum(
        sizes[layer].operations * (each.weight or 32) * (each.activation or 32) for layer, each in plan.items()
    )
    used = {"bits": weights / total, "KB": weights / 8000, "MBOPs": operations / 1e6}
    amount, unit = budget.split()
    assert used[unit] <= float(amount) * (1 + 1e-6)
    assert list(plan) == read_layers(relative_run)


def test_pinned_layers_keep_what_they_are_given(relative_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    pins = ["stages.0.*=8", "stages.2.0.conv1=full"]
    arguments = ["--budget", "30 bits", "--images", "50", "--bits", "1,2", "--out", str(path), "--pin", *pins]
    assert main(["plan", str(relative_run.path), *arguments]) == 0
    plan = read_plan(path)
    assert plan["stages.0.0.conv0"] == Precision(8, 8)
    assert plan["stages.2.0.conv1"] == FULL
    assert plan["stages.1.0.conv0"] == Precision(2, 2)


def test_excluded_layers_stay_in_full_precision_and_are_not_counted(relative_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    arguments = ["--budget", "1.5 bits", "--images", "50", "--out", str(path), "--exclude", "stages.0.*"]
    assert main(["plan", str(relative_run.path), *arguments]) == 0
    plan, sizes = read_plan(path), Subject.of_run(relative_run, 1).sizes
    rest = [layer for layer in plan if not layer.startswith("stages.0.")]
    assert {plan[layer] for layer in plan if layer not in rest} == {FULL}
    bits = sum(sizes[layer].parameters * (plan[layer].weight or 32) for layer in rest)
    assert 1 < bits / sum(sizes[layer].parameters for layer in rest) <= 1.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--budget", "lots"], "a budget is an amount above 0 with a unit"),
        (["--budget", "0.9 bits"], "no plan fits into 0.9 bits: the smallest possible one takes 1 bits"),
        (["--budget", "2 bits", "--pin", "nothing=2"], "the pinned layer 'nothing' matches no layer; the layers are"),
        (["--budget", "2 bits", "--pin", "head"], "--pin takes PATTERN=VALUE, not 'head'"),
        (["--budget", "2 bits", "--bits", "9"], "bits must be from 1 to 8, not 9"),
        (["--budget", "2 bits", "--bits", ","], "--bits must name at least one precision"),
        (["--budget", "2 bits", "--exclude", "nothing"], "the excluded layer 'nothing' matches no layer"),
        (
            ["--budget", "2 bits", "--exclude", "stages.0.*", "--pin", "stages.0.*=8"],
            "outside the excluded layers the pinned layer 'stages.0.*' matches no layer",
        ),
        (["--budget", "2 bits", "--exclude", "*"], "--exclude leaves no layer to choose a precision for"),
        (["--budget", "2 bits", "--rank", "taste"], "unknown ranking 'taste'; choose one of dual, hessian"),
    ],
)
def test_bad_arguments_get_one_sentence(
    relative_run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["plan", str(relative_run.path), "--images", "20", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (relative_run.path / "plan.toml").exists()


def test_an_unfinished_run_has_no_ranking(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(relative_run.path, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    assert main(["sensitivity", str(tmp_path / "run")]) == 2
    assert "is not finished" in capsys.readouterr().err


def test_a_plan_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = {"a.b": Precision(4, 8), "c": FULL, "d": Precision(None, 2)}
    for model in (None, PlanModel("preresnet20", 5)):
        write_plan(tmp_path / "plan.toml", plan, "by hand", model)
        assert read_plan(tmp_path / "plan.toml") == plan


@pytest.mark.parametrize("text", ["", "layers = 3", "[layers]", "[other]\na = '2'", "[layers]\na = '9'", "no toml"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="plan"):
        read_plan(path)


def test_a_layer_kept_high_by_a_plan_computes_what_it_computed_in_full_precision(relative_run: Run) -> None:
    everything = dict.fromkeys(read_layers(relative_run), "8")
    kept = {**everything, "stages.1.0.conv0": "full"}
    setup = Setup(dataclasses.replace(relative_run.config(), plan=kept, bits=["8"]))
    layer = setup.net.layers["stages.1.0.conv0"]
    x = torch.rand(2, 8, 8, 8)
    with torch.no_grad(), setup.net.under("mixed"):
        under_plan = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(under_plan, layer(x))
    assert not torch.equal(layer.full_weight(), layer.weight)


def read_layers(run: Run) -> list[str]:
    return list(run.summary()["plans"]["2-bit"])


QUICK = ["--train-images", "128", "--batch-size", "64", "--epochs", "1"]


def test_a_layer_with_a_step_of_its_own_is_not_tried_at_the_bits_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = ["--quantizer", "uniform", "--layers", "*.conv1=4"]
    assert main(["train", *QUICK, *mixed, "--out", str(tmp_path / "run")]) == 0
    assert main(["plan", str(tmp_path / "run"), "--budget", "3 bits", "--bits", "2,4"]) == 2
    assert "stages.0.0.conv0 can't be tried at others than 2" in capsys.readouterr().err


def test_a_layer_that_a_run_keeps_high_stays_in_its_next_plan_and_counts(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = dict.fromkeys(read_layers(relative_run), Precision(2, 2)) | {"stages.0.0.conv0": FULL}
    write_plan(tmp_path / "first.toml", kept, "by hand")
    common = ["train", "--from", str(relative_run.path), "--plan", str(tmp_path / "first.toml"), "--epochs", "1"]
    assert main([*common, "--out", str(tmp_path / "run")]) == 0
    assert "full precision by the plan" in capsys.readouterr().out
    arguments = ["--budget", "2 bits", "--images", "20", "--out", str(tmp_path / "second.toml")]
    assert main(["plan", str(tmp_path / "run"), *arguments]) == 0
    found = read_plan(tmp_path / "second.toml")
    assert found["stages.0.0.conv0"] == FULL
    assert list(found) == read_layers(relative_run)
    sizes = Subject.of_run(relative_run, 1).sizes
    total = sum(size.parameters for size in sizes.values())
    assert sum(sizes[layer].parameters * (each.weight or 32) for layer, each in found.items()) <= 2 * total
    within = ["train", "--from", str(tmp_path / "run"), "--budget", "2 bits", "--epochs", "2"]
    assert main([*within, "--out", str(tmp_path / "within")]) == 0
    plan = Run.open(tmp_path / "within").summary()["plans"]["mixed"]
    bits = {layer: Precision.parse(each).weight or 32 for layer, each in plan.items()}
    assert bits["stages.0.0.conv0"] == 32
    assert sum(sizes[layer].parameters * each for layer, each in bits.items()) <= 2 * total


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda plan: plan | {"nowhere": "2"}, "plan 'mixed' names the layer 'nowhere', which the model does not have"),
        (lambda plan: plan | {"stages.0.0.conv0": "9"}, "bits must be from 1 to 8, not 9"),
        (lambda _: {}, "is not a plan: it must hold one table, [layers]"),
    ],
)
def test_a_plan_of_another_model_or_none_at_all_is_refused(
    relative_run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, str]], dict[str, str]],
    sentence: str,
) -> None:
    path = tmp_path / "plan.toml"
    layers = change(dict.fromkeys(read_layers(relative_run), "4"))
    path.write_text("[layers]\n" + "".join(f"'{layer}' = '{bits}'\n" for layer, bits in layers.items()))
    out = tmp_path / "run"
    assert main(["train", "--from", str(relative_run.path), "--plan", str(path), "--out", str(out)]) == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_the_frontier_goes_from_the_smallest_to_the_largest_plan(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "frontier.json"
    assert main(["plan", str(relative_run.path), "--frontier", "--images", "50", "--out", str(path)]) == 0
    points = json.loads(path.read_text())
    bits = [each["average_bits"] for each in points]
    costs = [each["predicted_cost"] for each in points]
    assert bits == sorted(bits)
    assert costs == sorted(costs, reverse=True)
    assert bits[0] == 1
    assert len(points) > 3
    assert sum(each <= 4 for each in bits) > len(bits) / 2, "closer together where each bit matters more"
    assert all(0 <= each["accuracy"] <= 1 for each in points)
    assert [each["kilobytes"] / each["average_bits"] for each in points] == pytest.approx(
        [points[0]["kilobytes"]] * len(points)
    )
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in path.with_suffix(".svg").read_text()
    assert "accuracy without training" in capsys.readouterr().out


def test_a_run_is_measured_under_another_plan_with_statistics_of_its_own(relative_run: Run) -> None:
    """Beside an independent forward: every norm by the mean and variance of the same batches, layer after layer."""
    subject = Subject.of_run(relative_run, 60)
    plan = BitPlan("2-bit", dict.fromkeys(subject.layers, Precision(4, 8)))
    weights = {name: value.clone() for name, value in subject.net.state_dict().items()}
    found = measure_under(subject, plan)
    assert all(torch.equal(value, weights[name]) for name, value in subject.net.state_dict().items())

    norms = [module for module in subject.net.modules() if isinstance(module, PrecisionNorm)]
    sums: dict[str, list[torch.Tensor]] = {norm.name: [] for norm in norms}
    for norm in norms:
        norm.register_forward_pre_hook(
            lambda module, args: sums[module.name].append(
                torch.stack([args[0].mean((0, 2, 3)), args[0].transpose(0, 1).flatten(1).var(1)])
            )
        )
    subject.net.train()
    with torch.no_grad(), subject.net.state.under(plan):
        for inputs, _ in itertools.islice(subject.setup.training_batches(0), 8):
            subject.net(inputs)
    for norm in norms:
        view = norm.views["2-bit"]
        assert isinstance(view, nn.BatchNorm2d)
        assert view.running_mean is not None
        assert view.running_var is not None
        mean, variance = torch.stack(sums[norm.name]).mean(0)
        view.running_mean.copy_(mean)
        view.running_var.copy_(variance)
    subject.net.eval()
    inputs, target = next(iter(subject.batches()))
    with torch.no_grad(), subject.net.state.under(plan):
        output = subject.net(inputs)
    assert found.loss == pytest.approx(F.cross_entropy(output, target).item(), rel=1e-4)
    assert found.accuracy == pytest.approx((output.argmax(1) == target).float().mean().item())
