"""`fit` that was stopped and resumed ends with the numbers of one that was not, bit for bit; what can't be resumed."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from interrupted import Snapshots
from own_problem import DATA, EXAMPLE, TRAINING, VALIDATION, build, fitted, own_problem
from pdqat.constraints import BlockConstraint, LayerConstraint, OutputConstraint
from pdqat.dual_rules import NuPI
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from pdqat.metric import Metric
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import BusyError, Run
from pdqat.task import Problem, TaskProblem
from pdqat.training.replanning import Replanning
from same_run import assert_same_run, differences


class Shuffled(IterableDataset[tuple[Tensor, Tensor]]):
    """Samples of an unknown number that are shuffled by torch's generator."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (DATA[int(index)] for index in torch.randperm(len(DATA)))


LOADERS: dict[str, Callable[[], Any]] = {
    "list": lambda: TRAINING,
    "shuffled": lambda: DataLoader(DATA, batch_size=16, shuffle=True),
    "shuffled, with a generator": lambda: DataLoader(DATA, batch_size=16, shuffle=True, generator=torch.Generator()),
    "sampler with a generator": lambda: DataLoader(
        DATA, batch_size=16, sampler=RandomSampler(DATA, replacement=True, generator=torch.Generator())
    ),
    "without length": lambda: DataLoader(Shuffled(), batch_size=16),
}


def validation() -> Any:
    """Shuffled too, by a generator of its own."""
    return DataLoader(DATA, batch_size=20, shuffle=True, generator=torch.Generator())


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


def decaying(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "default": own_problem,
    "blocks, nupi, a part of each batch": lambda seed: own_problem(
        seed, constraints=[BlockConstraint(blocks=("3",))], duals=NuPI(0.1, damping=0.5, nu=0.5), layer_sample=0.5
    ),
    "tolerances by name": lambda seed: own_problem(seed, constraints=[LayerConstraint(tolerance={"3.*": 0.1, "*": 1})]),
    "learned steps": lambda seed: own_problem(seed, bits=[2, 4], quantizer="lsq", gradient="straight-through"),
    "task alone": lambda seed: TaskProblem(own_problem(seed).net, F.cross_entropy),
}


def as_instances(problem: Problem) -> dict[str, Any]:
    optimizer = sgd(problem.net.parameters())
    return {"optimizer": optimizer, "scheduler": decaying(optimizer)}


HOW: dict[str, Callable[[Problem], dict[str, Any]]] = {
    "plain": lambda _: {},
    "own optimizer, scheduler an epoch": lambda _: {"optimizer": sgd, "scheduler": decaying},
    "own optimizer and scheduler as instances": as_instances,
    "scheduler a step": lambda _: {"optimizer": sgd, "scheduler": decaying, "scheduler_every": "step"},
    "one cycle, two batches a step, clipped": lambda _: {"schedule": "one-cycle", "accumulate": 2, "clip_norm": 0.5},
    "fresh slacks within the epoch": lambda _: {"dual_every": 2, "slack_batches": validation()},
    "in bfloat16": lambda _: {"amp": True},
    "under a budget": lambda _: {"replanning": Replanning("2.5 bits", bits=[1, 2, 4], at=(0.4, 0.7))},
    "under a budget with an own optimizer": lambda _: {
        "replanning": Replanning("1 bits", bits=[1, 2], at=(0.5,)),
        "optimizer": sgd,
        "scheduler": decaying,
    },
    "by the loss": lambda _: {"metric": "loss", "test": VALIDATION},
}


def train(folder: Path, loader: Any, problem: Problem, snapshots: Path | None = None, **how: Any) -> Run:
    callbacks = [] if snapshots is None else [Snapshots(folder, snapshots)]
    how = {"epochs": 3, "lr": 0.01, "validation": validation(), "callbacks": callbacks, **how}
    fitted(problem, loader, out=folder, resume=folder.exists(), **how)
    return Run.open(folder)


def assert_resumable(
    place: Path, loader: Callable[[], Any], problem: Callable[[int], Problem], how: Callable[[Problem], dict[str, Any]]
) -> None:
    """Stopped after any epoch, and resumed as in a new process: with other weights and another state of torch."""
    first = problem(0)
    undisturbed = train(place / "undisturbed", loader(), first, place, **how(first))
    for epoch in (1, 2, 3):
        other = problem(epoch)
        torch.manual_seed(1000 + epoch)
        resumed = train(place / str(epoch), loader(), other, **how(other))
        assert_same_run(undisturbed, resumed)
        if "replanning" not in how(other):  # which trains a copy
            assert differences(first.state_dict(), other.state_dict()) == []


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS.keys())
def test_any_loader(tmp_path: Path, loader: Callable[[], Any]) -> None:
    assert_resumable(tmp_path, loader, own_problem, HOW["plain"])


@pytest.mark.parametrize("problem", list(PROBLEMS.values())[1:], ids=list(PROBLEMS)[1:])
def test_any_problem(tmp_path: Path, problem: Callable[[int], Problem]) -> None:
    assert_resumable(tmp_path, LOADERS["shuffled"], problem, HOW["plain"])


@pytest.mark.parametrize("how", list(HOW.values())[1:], ids=list(HOW)[1:])
def test_any_way_to_train(tmp_path: Path, how: Callable[[Problem], dict[str, Any]]) -> None:
    assert_resumable(tmp_path, LOADERS["shuffled"], own_problem, how)


def test_a_finished_training_is_returned_as_it_is(tmp_path: Path) -> None:
    first, again = own_problem(0), own_problem(1)
    done = fitted(first, out=tmp_path / "run")
    before = Run.open(tmp_path / "run").last.read_bytes()
    history = fitted(again, out=tmp_path / "run", resume=True)
    assert history.epochs == done.epochs
    assert history.summary == done.summary
    assert differences(first.state_dict(), again.state_dict()) == []
    assert Run.open(tmp_path / "run").last.read_bytes() == before


def test_a_finished_training_may_be_given_more_epochs(tmp_path: Path) -> None:
    fitted(own_problem(), out=tmp_path / "run", milestones=())
    longer = fitted(own_problem(), out=tmp_path / "run", milestones=(), epochs=4, resume=True)
    assert longer.epochs == fitted(own_problem(), milestones=(), epochs=4).epochs


def test_training_into_a_folder_changes_nothing(tmp_path: Path) -> None:
    kept, free = own_problem(), own_problem()
    left, right = fitted(kept, out=tmp_path / "run"), fitted(free)
    assert left.epochs == right.epochs
    assert {**left.summary, "seconds": 0} == {**right.summary, "seconds": 0}
    assert differences(kept.state_dict(), free.state_dict()) == []


# What can't be resumed


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fit")
    fitted(own_problem(), out=place / "run", callbacks=[Snapshots(place / "run", place)])
    return place / "1"


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped_once, tmp_path / "stopped")


def resumed(folder: Path, problem: Problem | None = None, **how: Any) -> str:
    """What is said instead of resuming; the folder stays as it was."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError) as refusal:
        fitted(own_problem() if problem is None else problem, out=folder, resume=True, **how)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("problem", "what"),
    [
        (lambda: own_problem(bits=4), "its plans is {'2-bit': {'3.0': '2', '4': '2'}}, here it is {'4-bit'"),
        (lambda: own_problem(quantizer="uniform"), "its quantizer is 'dorefa', here it is 'uniform'"),
        (lambda: own_problem(gradient="exact"), "its gradient is 'straight-through', here it is 'exact'"),
        (lambda: own_problem(constraints=[OutputConstraint()]), "its constraints is "),
        (
            lambda: own_problem(duals=NuPI(0.01)),
            "its duals is {'kind': 'ascent', 'rate': 0.1, 'restart': False}, here it is {'kind': 'nupi'",
        ),
        (lambda: own_problem(layer_sample=0.5), "its layer_sample is 1.0, here it is 0.5"),
        (
            lambda: TaskProblem(own_problem().net, F.cross_entropy),
            "its gradient is 'straight-through', here it is None",
        ),
        (
            lambda: Lagrangian(prepare(build(), EXAMPLE, 2, quantizer="dorefa", tied_norms=False), F.cross_entropy),
            "its tied_norms is True, here it is False",
        ),
    ],
    ids=["bits", "quantizer", "gradient", "constraints", "duals", "layer sample", "task", "norms"],
)
def test_another_problem_is_refused(stopped: Path, problem: Callable[[], Problem], what: str) -> None:
    said = resumed(stopped, problem())
    assert f"the run {stopped} is of another problem: {what}" in said


def test_another_model_with_the_same_names_is_refused(stopped: Path) -> None:
    model = build(width=6)
    said = resumed(stopped, Lagrangian(prepare(model, EXAMPLE, 2, quantizer="dorefa"), F.cross_entropy))
    assert f"the checkpoint {stopped / 'last.pt'} does not fit the problem: size mismatch" in said


@pytest.mark.parametrize(
    "how",
    [{"optimizer": sgd}, {"optimizer": torch.optim.RMSprop}],
    ids=["sgd", "rmsprop"],
)
def test_another_optimizer_is_refused(stopped: Path, how: dict[str, Any]) -> None:
    assert f"the checkpoint {stopped / 'last.pt'} does not fit the training's optimizer" in resumed(stopped, **how)


def test_another_metric_is_refused(stopped: Path) -> None:
    problem = own_problem()
    metric = Metric("margin", lambda output, _: output.max(1).values)
    said = resumed(stopped, problem, metric=metric)
    assert said == "the epochs so far were judged by 'accuracy': continue with that metric, not 'margin'"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"3"])
def test_a_damaged_description_is_refused(stopped: Path, content: bytes) -> None:
    (stopped / "problem.json").write_bytes(content)
    assert "problem.json" in resumed(stopped)


@pytest.mark.parametrize("name", ["last.pt", "best.pt"])
def test_a_damaged_checkpoint_is_refused(stopped: Path, name: str) -> None:
    (stopped / name).write_bytes((stopped / name).read_bytes()[:-50])
    assert f"the checkpoint {stopped / name} is damaged" in resumed(stopped)


def test_an_existing_folder_is_not_trained_into(stopped: Path) -> None:
    before = {path.name: path.read_bytes() for path in stopped.iterdir()}
    with pytest.raises(InputError, match=r"stopped exists; give another folder as out, or continue .* resume=True"):
        fitted(own_problem(), out=stopped)
    assert {path.name: path.read_bytes() for path in stopped.iterdir()} == before


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="resume continues the training in a run folder: name it with out"):
        fitted(own_problem(), resume=True)
    with pytest.raises(InputError, match="nowhere is not a run folder"):
        fitted(own_problem(), out=tmp_path / "nowhere", resume=True)
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_is_trained_by_one_process_at_a_time(stopped: Path) -> None:
    with Run.open(stopped).locked(), pytest.raises(BusyError, match="is being trained by another process"):
        fitted(own_problem(), out=stopped, resume=True)


def test_the_folder_holds_plain_values_and_no_code(stopped: Path) -> None:
    description = json.loads((stopped / "problem.json").read_text())
    assert description["format"] == 1
    assert description["plans"] == {"2-bit": {"3.0": "2", "4": "2"}}
    assert load_checkpoint(stopped / "last.pt")["best"]["epoch"] == 1
