"""`pdqat.load`: what `fit(out=...)` made becomes the same problem again."""

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pdqat
from own_problem import EXAMPLE, TRAINING, X, build, fitted, own_problem
from pdqat import (
    Ascent,
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    DualRule,
    InputError,
    Lagrangian,
    LayerConstraint,
    Multiplicative,
    NuPI,
    OutputConstraint,
    TaskProblem,
)
from pdqat.cli import main
from pdqat.constraints import Bound, Sides
from pdqat.description import describe
from pdqat.dual_rules import DualState
from pdqat.layers import Network, prepare
from pdqat.layers.recorder import Request
from pdqat.precision import BitPlan
from pdqat.quantizers import SCHEMES, DoReFaActivation, DoReFaWeight, Scheme
from pdqat.runs.checkpoints import load_checkpoint, save_checkpoint
from pdqat.runs.seal import Seal
from pdqat.task import Problem
from pdqat.training.replanning import Replanning
from same_run import differences

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "default": own_problem,
    "output, squared": lambda: own_problem(constraints=[OutputConstraint("squared", 0.25, price=0.5)]),
    "layers by name": lambda: own_problem(constraints=[LayerConstraint("absolute", {"3.*": 0.5, "*": 0.1}, 0.5)]),
    "channels": lambda: own_problem(constraints=[OutputConstraint("cross-entropy"), ChannelConstraint("squared")]),
    "blocks": lambda: own_problem(constraints=[BlockConstraint(tolerance=0.2, blocks=("3",))]),
    "ascent": lambda: own_problem(duals=Ascent(0.5)),
    "nupi": lambda: own_problem(duals=NuPI(0.5, damping=0.1, nu=0.5)),
    "multiplicative": lambda: own_problem(duals=Multiplicative(0.3)),
    "several plans": lambda: own_problem(bits=["w2a4", 4]),
    "a plan by layers": lambda: own_problem(bits=BitPlan("mine", {"0": "8", "3.0": "2", "4": "full"})),  # type: ignore[dict-item]
    "exact gradient, a part of each batch": lambda: own_problem(gradient="exact", layer_sample=0.5),
    "tied norms": lambda: Lagrangian(prepare(build(), EXAMPLE, 2, tied_norms=True), F.cross_entropy),
    "integer sums": lambda: Lagrangian(prepare(build(), EXAMPLE, 2, integer_sums=True), F.cross_entropy),
    **{
        f"quantizer {name}": partial(own_problem, quantizer=name, gradient="straight-through")
        for name in SCHEMES
        if name != "dorefa"
    },
    "straight-through alone": lambda: TaskProblem(own_problem(bits=[2, 4]).net, F.cross_entropy),
    "full precision alone": lambda: TaskProblem(own_problem().net, F.cross_entropy, low=False),
}


def outputs(problem: Problem) -> dict[str, Tensor]:
    """Of every view."""
    results = {}
    with torch.no_grad():
        for name, plan in [("full", None), *problem.net.plans.items()]:
            with problem.net.under(plan):
                results[name] = problem.net(X)
    return results


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_loaded_problem_is_the_one_that_was_trained(make: Callable[[], Problem], tmp_path: Path) -> None:
    problem = make()
    fitted(problem, out=tmp_path / "run", epochs=1, lr=0.02)
    torch.manual_seed(99)
    model = build()
    loaded = pdqat.load(tmp_path / "run", model)
    assert type(loaded) is type(problem)
    assert loaded.net.model is model
    assert differences(outputs(problem), outputs(loaded)) == []
    assert differences(problem.state_dict(), loaded.state_dict()) == [], "weights, norms, quantisers and multipliers"
    assert loaded.bounds == problem.bounds
    assert json.loads(json.dumps(describe(loaded))) == json.loads(json.dumps(describe(problem)))
    assert not any(module.training for module in loaded.modules())


def test_a_loaded_problem_goes_on_training_as_the_trained_one_does(tmp_path: Path) -> None:
    problem = own_problem(constraints=[LayerConstraint(tolerance=0.0)], duals=NuPI(0.5, damping=0.1))
    fitted(problem, out=tmp_path / "run")
    loaded = pdqat.load(str(tmp_path / "run"), build())
    left, right = fitted(problem, epochs=1), fitted(loaded, epochs=1)
    assert left.epochs == right.epochs
    assert differences(problem.state_dict(), loaded.state_dict()) == []


def test_best_or_last_is_loaded(tmp_path: Path) -> None:
    fitted(own_problem(), out=tmp_path / "run")
    for name in ("best", "last"):
        loaded = pdqat.load(tmp_path / "run", build(), checkpoint=name)
        state = load_checkpoint(tmp_path / "run" / f"{name}.pt")["model"]
        assert differences(state, loaded.net.state_dict()) == []
    with pytest.raises(InputError, match="checkpoint is 'best' or 'last', not 'first'"):
        pdqat.load(tmp_path / "run", build(), checkpoint="first")


@pytest.mark.parametrize("budget", ["8 bits", "1 bits"], ids=["the same plan", "another plan"])
def test_bits_that_were_chosen_on_the_way_are_loaded(tmp_path: Path, budget: str) -> None:
    """From 8 bits: all of the budget allows no other best plan, or none of it the first one."""
    problem = own_problem(bits=8)
    bits = [8, 7] if budget == "8 bits" else [8, 1]
    layers = {"4": 8} if budget == "8 bits" else {}
    for bound in problem.bounds:
        problem.duals.named()[bound.name].fill_(1.0)
    history = fitted(problem, out=tmp_path / "run", replanning=Replanning(budget, bits=bits, at=(0.5,), layers=layers))
    loaded = pdqat.load(tmp_path / "run", build())
    assert history.summary["plans"] == {"mixed": loaded.net.only_plan("test").as_text()}
    assert differences(history.problem.state_dict(), loaded.state_dict()) == []


@pytest.mark.parametrize("name", SCHEMES)
def test_a_copied_problem_is_described_as_the_original(name: str) -> None:
    problem = own_problem(quantizer=name, gradient="straight-through")
    assert describe(copy.deepcopy(problem)) == describe(problem)
    assert describe(problem)["quantizer"] == name


# Own classes


@dataclass(frozen=True)
class Halving(DualRule):
    """A rule of own code."""

    name = "halving"

    def step(self, state: DualState, slacks: Tensor) -> tuple[Tensor, Tensor]:
        return state.multipliers / 2, state.memory

    @property
    def gain(self) -> float:
        return 0.0


class Mean(Constraint):
    """A constraint of own code: the outputs' means agree."""

    kind = "mean"

    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        return [Bound(self.kind, "", plan.name, 0.125, start=1.0)]

    def request(self, net: Network, plan: BitPlan) -> Request | None:
        return None

    def distances(self, bounds: Any, sides: Sides) -> list[Tensor]:
        return [(sides.full.mean() - sides.low.mean()).square().view(1)]


OWN_SCHEME = Scheme(partial(DoReFaWeight, scaled=False), DoReFaActivation)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"duals": Halving()}, "made with Halving, own code that no file may name: give duals= again"),
        ({"constraints": [Mean(), LayerConstraint()]}, "made with Mean, .*: give constraints= again"),
        ({"quantizer": OWN_SCHEME}, "made with Scheme, .*: give quantizer= again"),
    ],
    ids=["duals", "constraints", "quantizer"],
)
def test_own_classes_have_to_be_given_again(tmp_path: Path, own: dict[str, Any], said: str) -> None:
    problem = own_problem(**own)
    fitted(problem, out=tmp_path / "run", epochs=1)
    with pytest.raises(InputError, match=said):
        pdqat.load(tmp_path / "run", build())
    loaded = pdqat.load(tmp_path / "run", build(), **own)
    assert differences(outputs(problem), outputs(loaded)) == []
    assert differences(problem.state_dict(), loaded.state_dict()) == []


def test_an_own_loss_is_given_again(tmp_path: Path) -> None:
    net = prepare(build(), EXAMPLE, 2)
    targets = [(inputs, inputs[:, :3]) for inputs, _ in TRAINING]
    problem = Lagrangian(net, F.mse_loss, [OutputConstraint("squared")])
    fitted(problem, targets, validation=targets, out=tmp_path / "run", epochs=1)
    loaded = pdqat.load(tmp_path / "run", build(), F.mse_loss)
    left, right = pdqat.evaluate(problem, targets), pdqat.evaluate(loaded, targets)
    assert (left.loss, left.scores, left.constraints) == (right.loss, right.scores, right.constraints)


# Damage


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("load") / "run"
    fitted(own_problem(), out=folder, epochs=1)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    for path in trained.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def refused(folder: Path, model: nn.Module | None = None) -> str:
    with pytest.raises(InputError) as refusal:
        pdqat.load(folder, build() if model is None else model)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


WITHOUT: Any = object()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 2),
        ("format", WITHOUT),
        ("plans", WITHOUT),
        ("plans", 3),
        ("plans", {}),
        ("plans", {"2-bit": {}}),
        ("plans", {"2-bit": {"3.0": "99"}}),
        ("plans", {"2-bit": {"stages.0": "2"}}),
        ("plans", {"os.system('true')": {"3.0": "2"}}),
        ("quantizer", "os"),
        ("quantizer", ["dorefa"]),
        ("quantizer", {"class": "os.system"}),
        ("tied_norms", WITHOUT),
        ("tied_norms", "yes"),
        ("integer_sums", None),
        ("low", "yes"),
        ("gradient", "wrong"),
        ("gradient", 3),
        ("layer_sample", "much"),
        ("layer_sample", 7),
        ("constraints", 3),
        ("constraints", []),
        ("constraints", [{"kind": "os.system"}]),
        ("constraints", [{"kind": "output", "command": "true"}]),
        ("constraints", [{"kind": "output", "distance": 3}]),
        ("constraints", [{"kind": "output", "tolerance": "wide"}]),
        ("constraints", [{"kind": "block", "blocks": 3}]),
        ("constraints", [{"kind": "block", "blocks": ["nowhere"]}]),
        ("constraints", ["output"]),
        ("duals", WITHOUT),
        ("duals", {"kind": "ascent", "rate": "fast"}),
        ("duals", {"kind": "ascent", "rate": -1}),
        ("duals", {"kind": ["ascent"]}),
        ("duals", None),
    ],
    ids=lambda value: "without" if value is WITHOUT else str(value),
)
def test_a_damaged_description_is_refused_in_one_sentence(folder: Path, key: str, value: Any) -> None:
    description = json.loads((folder / "problem.json").read_text())
    description.pop(key, None)
    if value is not WITHOUT:
        description[key] = value
    (folder / "problem.json").write_text(json.dumps(description))
    Seal(folder).accept()
    refused(folder)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000], ids=lambda content: content[:5]
)
def test_what_is_no_description_is_refused(folder: Path, content: bytes) -> None:
    (folder / "problem.json").write_bytes(content)
    assert "problem.json" in refused(folder)


class Malicious:
    """Unpickles to a call of os.system that leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch '{self.trace}'",)


@pytest.mark.parametrize("name", ["example.pt", "best.pt"])
def test_tensors_that_are_damaged_missing_or_code_are_refused(folder: Path, name: str, tmp_path: Path) -> None:
    file, trace = folder / name, tmp_path / "trace"
    whole = file.read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole[:-30], bytes(range(256))):
        file.write_bytes(content)
        assert f"{file} is damaged or not a torch file of plain tensors" in refused(folder)
    torch.save({"example": Malicious(trace), "model": Malicious(trace)}, file)
    assert f"{file} is damaged or not a torch file of plain tensors" in refused(folder)
    assert not trace.exists()
    torch.save({"something": torch.ones(1)}, file)
    assert str(file) in refused(folder)
    file.unlink()
    assert f"there is no {'example input' if name == 'example.pt' else 'checkpoint'} {file}" in refused(folder)


def test_an_example_that_the_model_can_not_take_is_refused(folder: Path) -> None:
    torch.save({"example": torch.rand(2, 7)}, folder / "example.pt")
    assert "the model can't process the example input (shape (2, 7))" in refused(folder)


def test_a_checkpoint_of_another_problem_is_refused(folder: Path) -> None:
    checkpoint = load_checkpoint(folder / "best.pt")
    save_checkpoint(folder / "best.pt", {**checkpoint, "duals": {}})
    assert f"the checkpoint {folder / 'best.pt'} does not fit the problem" in refused(folder)


def test_another_model_is_refused(folder: Path) -> None:
    assert "does not fit the problem: size mismatch" in refused(folder, build(width=6))
    assert "can't process the example input" in refused(folder, nn.Sequential(nn.Linear(5, 5)))
    other = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 3))
    assert "plan '2-bit' names the layer '3.0', which the model does not have" in refused(folder, other)


def test_a_model_is_needed_for_own_code_and_none_for_built_in_ones(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is of a model of own code: give a plain module of that kind as model"):
        pdqat.load(folder)
    built_in = tmp_path / "built-in"
    tiny = ["--epochs", "1", "--train-images", "32", "--batch-size", "16"]
    assert main(["train", "--method", "pdqat-output", *tiny, "--out", str(built_in)]) == 0
    with pytest.raises(InputError, match="is of a model that pdqat builds itself: give no model"):
        pdqat.load(built_in, build())
    loaded = pdqat.load(built_in)
    assert differences(load_checkpoint(built_in / "best.pt")["model"], loaded.net.state_dict()) == []


# The command line on such a folder


def test_show_shows_a_run_of_own_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(folder)]) == 0
    shown = capsys.readouterr().out
    for words in ("accuracy", "full precision", "2-bit", "3.0", f"run folder: {folder}"):
        assert words in shown
    assert main(["show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize(
    "command",
    [["eval"], ["sensitivity"], ["plan", "--budget", "2 bits"], ["train", "--resume"], ["train", "--from"]],
    ids=" ".join,
)
def test_other_commands_say_how_to_open_it(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(folder / "next")] if command[-1] == "--from" else []
    assert main([*command, str(folder), *out]) == 2
    said = capsys.readouterr().err
    assert said == f"pdqat: the run {folder} was trained by own code: open it with pdqat.load('{folder}', model)\n"


def test_show_says_how_an_unfinished_training_is_continued(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "summary.json").unlink()
    assert main(["show", str(folder)]) == 2
    how = f"pdqat.fit(..., out='{folder}', resume=True)"
    assert capsys.readouterr().err == f"pdqat: the run {folder} is not finished; continue it with: {how}\n"
