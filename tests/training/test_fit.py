"""`fit` on a user's own problem and loaders."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from counting import BATCHES, calls_of, counting_problem, fewer_calls, more_calls
from own_problem import DATA, TRAINING, VALIDATION, X, fitted, own_problem
from pdqat.constraints import OutputConstraint
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from pdqat.metric import Metric
from pdqat.task import TaskProblem
from pdqat.training.callbacks import Callback
from pdqat.training.replanning import Replanning
from same_run import differences


class Unsized(IterableDataset[tuple[Tensor, Tensor]]):
    """Samples without a known number: a DataLoader of them has no length."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(DATA)


class Scripted:
    """A metric whose scores are known beforehand: those of the views of one epoch after the other, then the last."""

    def __init__(self, *scores: float) -> None:
        self._scores = list(scores)

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        return torch.tensor(self._scores.pop(0) if len(self._scores) > 1 else self._scores[0])


class Log(Callback):
    """Remembers all that it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def start(self, epochs: int, steps: int | None, done: int) -> None:
        self.told.append(("start", epochs, steps, done))

    def step(self, epoch: int, step: int, objective: float) -> None:
        self.told.append(("step", epoch, step))

    def epoch(self, entry: dict[str, Any]) -> None:
        self.told.append(("epoch", entry["epoch"]))


def test_the_problem_ends_with_the_state_of_the_best_epoch() -> None:
    worse, better = counting_problem(), counting_problem()
    for problem, metric, best in ((worse, fewer_calls(worse), 1), (better, more_calls(better), 3)):
        history = fitted(problem, BATCHES, validation=BATCHES, epochs=3, metric=metric)
        assert history.problem is problem
        assert history.summary["chosen_epoch"] == best
        assert history.epochs[best - 1]["calls"]["2-bit"] == calls_of(problem)
        assert evaluate(problem, BATCHES).constraints == history.summary["constraints"]
        assert history.summary["constraints"] == history.epochs[best - 1]["constraints"]


def test_a_training_changes_weights_norms_and_multipliers() -> None:
    problem, before = own_problem(), own_problem()
    fitted(problem)
    moved = set(differences(before.state_dict(), problem.state_dict()))
    assert {"/net.0.weight", "/net.3.0.weight", "/net.1.views.2-bit.running_mean", "/duals.multipliers"} <= moved


def test_the_history_prints_as_tables_and_holds_scores_by_view_and_part() -> None:
    history = fitted(own_problem(), test=VALIDATION)
    assert [entry["epoch"] for entry in history.epochs] == [1, 2]
    assert {view: set(parts) for view, parts in history.scores.items()} == {
        view: {"validation", "test"} for view in ("full", "2-bit")
    }
    assert all(parts["validation"] == parts["test"] for parts in history.scores.values())
    text = str(history)
    for words in ("accuracy", "full precision", "2-bit", "validation", "test", "multiplier", "pdqat, model of epoch"):
        assert words in text
    assert set(fitted(own_problem()).scores["full"]) == {"validation"}, "no test samples, no scores of them"


def test_fit_goes_on_from_where_the_problem_is() -> None:
    problem = counting_problem()
    for trainings in (1, 2, 3):
        history = fitted(problem, BATCHES, epochs=1, metric=more_calls(problem), validation=BATCHES)
        assert len(history.epochs) == 1
        assert calls_of(problem) == trainings * 2 * len(BATCHES), "two views of every batch"


def test_training_is_in_training_mode_evaluation_in_evaluation_mode_and_so_is_what_comes_out() -> None:
    modes: list[bool] = []

    class Observed(nn.ReLU):
        def forward(self, inputs: Tensor) -> Tensor:
            modes.append(self.training)
            return super().forward(inputs)

    layers = (nn.Linear(4, 8), Observed(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    problem = Lagrangian(prepare(nn.Sequential(*layers), X[:4], 2), F.cross_entropy).eval()
    modes.clear()
    fitted(problem, epochs=2)
    look_at_the_example = [False]
    of_an_epoch = [True] * 2 * len(TRAINING) + [False] * 2 * len(VALIDATION) + look_at_the_example
    assert modes == 2 * of_an_epoch + [False] * 2 * len(VALIDATION), "and the summary at the end"
    assert not any(module.training for module in problem.modules())


def test_plain_lists_dataloaders_and_loaders_without_length_give_the_same_training() -> None:
    loaders: list[Any] = [
        TRAINING,
        tuple(TRAINING),
        DataLoader(DATA, batch_size=16),
        DataLoader(Unsized(), batch_size=16),
    ]
    states = []
    for loader in loaders:
        problem = counting_problem()  # without dropout: a DataLoader draws from torch's generator, a list does not
        fitted(problem, loader)
        states.append(problem.state_dict())
    assert [differences(states[0], state) for state in states[1:]] == [[], [], []]


def test_inputs_may_be_tuples_and_dictionaries() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            output: Tensor = self.last(self.second(self.first(left + right).relu()).relu())
            return output

    for pack in (lambda x: (x, 2 * x), lambda x: {"left": x, "right": 2 * x}):
        torch.manual_seed(0)
        problem = Lagrangian(prepare(Sum(), pack(X[:8]), 2), F.cross_entropy)
        batches = [(pack(inputs), target) for inputs, target in TRAINING]
        assert len(fitted(problem, batches, validation=batches).epochs) == 2


@pytest.mark.parametrize(("low", "views"), [(True, ["2-bit", "4-bit"]), (False, ["full"])])
def test_a_task_problem_is_trained_too(low: bool, views: list[str]) -> None:
    problem = TaskProblem(own_problem(bits=[2, 4]).net, F.cross_entropy, low)
    history = fitted(problem)
    assert list(history.scores) == views
    assert history.summary["constraints"] == []
    assert history.summary["method"] == ("ste" if low else "full")


# Metrics


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (None, "accuracy"),
        ("accuracy", "accuracy"),
        ("loss", "task_loss"),
        (F.cross_entropy, "cross_entropy"),
        (lambda output, _: output.std(), "lambda"),
        (Scripted(1.0), "score"),
        (Metric("negative_loss", lambda output, target: -F.cross_entropy(output, target)), "negative_loss"),
    ],
    ids=["default", "accuracy", "loss", "function", "lambda", "object", "metric"],
)
def test_scores_stand_under_the_metrics_name(metric: Any, name: str) -> None:
    history = fitted(own_problem(), metric=metric, epochs=1)
    assert history.epochs[0]["metric"] == history.summary["metric"] == name
    assert list(history.epochs[0][name]) == ["full", "2-bit"]
    assert history.scores == history.summary[name]
    assert name.replace("_", " ") in str(history)


def test_accuracy_is_the_part_of_right_classes() -> None:
    problem = own_problem()
    history = fitted(problem)
    (inputs, target), *_ = VALIDATION
    right = (problem.net(inputs).argmax(1) == target).double().mean()
    assert history.scores["full"]["validation"] == float(right)


@pytest.mark.parametrize(("higher_is_better", "best"), [(True, 2), (False, 4)])
def test_the_best_epoch_has_the_best_mean_over_the_low_precision_views(higher_is_better: bool, best: int) -> None:
    """Neither the full-precision view nor one of the plans nor the last epoch decides."""
    script = [
        *(0.9, 0.1, 0.4),  # epoch 1: full precision, 2-bit, 4-bit
        *(0.5, 0.5, 0.7),  # the highest mean
        *(0.5, 0.0, 0.9),
        *(0.5, 0.2, 0.2),  # the lowest mean
        *(0.1, 0.6, 0.1),
    ]
    metric = Metric("scripted", Scripted(*script), higher_is_better)
    history = fitted(own_problem(bits=[2, 4]), metric=metric, epochs=5)
    assert history.summary["chosen_epoch"] == best


def test_of_equal_epochs_the_first_is_best() -> None:
    assert fitted(own_problem(), metric=Scripted(0.5), epochs=3).summary["chosen_epoch"] == 1


def test_regression_goes_by_the_least_loss() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    problem = Lagrangian(prepare(model, X[:8], 4), F.mse_loss, [OutputConstraint("squared")])
    batches = [(inputs, inputs.sum(1, keepdim=True)) for inputs, _ in TRAINING]
    history = fitted(problem, batches, validation=batches, epochs=3, lr=0.01)
    losses = [entry["task_loss"]["4-bit"] for entry in history.epochs]
    assert history.summary["metric"] == "task_loss"
    assert history.summary["chosen_epoch"] == losses.index(min(losses)) + 1
    assert history.epochs[0]["loss"] == pytest.approx(history.epochs[0]["task_loss"]["4-bit"])


def test_a_score_that_is_not_a_number_stops_the_training() -> None:
    metric = Metric("ratio", lambda *_: torch.tensor(float("nan")))
    with pytest.raises(InputError, match="the ratio of full is not a number after epoch 1; a smaller learning rate"):
        fitted(own_problem(), metric=metric)


# Callbacks


@pytest.mark.parametrize("loader", [TRAINING, DataLoader(Unsized(), batch_size=16)], ids=["sized", "unsized"])
def test_callbacks_are_told_of_start_steps_and_epochs(loader: Any) -> None:
    first, second = Log(), Log()
    fitted(own_problem(), loader, callbacks=[first, second])
    sized = isinstance(loader, list)
    assert first.told[0] == ("start", 2, 3 if sized else None, 0)
    steps = [("step", 1, 3), ("epoch", 1), ("step", 2, 3), ("epoch", 2)]
    assert first.told[1:] == steps
    assert first.told == second.told


def test_what_a_callback_raises_ends_the_training_with_the_folder_as_it_was_then(tmp_path: Path) -> None:
    class Full(Callback):
        def epoch(self, entry: dict[str, Any]) -> None:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fitted(own_problem(), callbacks=[Full()], out=tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *("problem.json", "example.pt", "metrics.jsonl", "best.pt", "last.pt", "seal.json", ".lock")
    }


def test_the_progress_is_printed_a_line_an_epoch_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(own_problem(), progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["epoch", "1/2"], ["epoch", "2/2"]]
    fitted(own_problem())
    assert capsys.readouterr().out == ""


# What is random


class Seeds(list[tuple[Tensor, Tensor]]):
    """Batches with a generator that remember how it was seeded at the start of every pass."""

    def __init__(self) -> None:
        super().__init__(TRAINING)
        self.generator = torch.Generator()
        self.seeds: list[int] = []

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.seeds.append(self.generator.initial_seed())
        return super().__iter__()


def test_every_pass_starts_from_a_seed_of_its_own() -> None:
    training, slacks, validation = Seeds(), Seeds(), Seeds()
    fitted(own_problem(), training, slack_batches=slacks, validation=validation, epochs=3, norm_batches=0)
    assert training.seeds == [0, 1, 2]
    assert len(set(slacks.seeds)) == 3
    assert not set(slacks.seeds) & set(training.seeds), "fresh slacks are not of what the epoch trained on first"
    again, other = Seeds(), Seeds()
    fitted(own_problem(), again, epochs=3, norm_batches=0)
    fitted(own_problem(), other, epochs=3, seed=1, norm_batches=0)
    assert again.seeds == training.seeds
    assert not set(other.seeds) & set(training.seeds)
    with_norms = Seeds()
    fitted(own_problem(), with_norms, epochs=3)
    assert with_norms.seeds[::2] == training.seeds, "passes that norms are estimated on change nothing of the others"
    assert not set(with_norms.seeds[1::2]) & set(training.seeds)


def test_the_same_seed_is_the_same_training_and_another_is_another() -> None:
    def trained(seed: int) -> dict[str, Tensor]:
        problem = own_problem()
        torch.rand(seed + 3)
        fitted(problem, DataLoader(DATA, batch_size=16, shuffle=True), seed=seed)
        return problem.state_dict()

    first = trained(0)
    assert differences(first, trained(0)) == []
    assert differences(first, trained(1)) != []


# Refusals


def once() -> Iterator[tuple[Tensor, Tensor]]:
    yield from TRAINING


NO_LENGTH: Any = DataLoader(Unsized(), batch_size=16)
SGD: Callable[..., torch.optim.Optimizer] = lambda parameters: torch.optim.SGD(parameters, 0.1)  # noqa: E731


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batches": once()}, "batches is a generator, which ends after one pass; give a list or a DataLoader"),
        ({"batches": iter(TRAINING)}, "batches is a list_iterator, which ends after one pass"),
        ({"validation": once()}, "validation is a generator, which ends after one pass"),
        ({"test": once()}, "test is a generator, which ends after one pass"),
        ({"slack_batches": once()}, "slack_batches is a generator, which ends after one pass"),
        ({"batches": 3}, r"batches must be an iterable of \(inputs, target\), such as a DataLoader, not 3"),
        ({"epochs": 0}, "epochs must be a whole number from 1 upwards, not 0"),
        ({"epochs": 1.5}, "epochs must be a whole number from 1 upwards, not 1.5"),
        ({"lr": 0}, "lr must be a number above 0, not 0"),
        ({"lr": float("nan")}, "lr must be a number above 0, not nan"),
        ({"lr": "fast"}, "lr must be a number above 0, not 'fast'"),
        ({"lr": None}, "lr must be a number above 0, not None"),
        ({"clip_norm": -1.0}, "clip_norm must be a number above 0, not -1.0"),
        ({"accumulate": 0}, "accumulate must be a whole number from 1 upwards, not 0"),
        ({"patience": -1}, "patience must be a whole number from 0 upwards, not -1"),
        ({"seed": -1}, "seed must be a whole number from 0 upwards, not -1"),
        ({"milestones": [0.5, 1]}, r"milestones are parts of the epochs, above 0 and below 1, not \[0.5, 1\]"),
        ({"schedule": "cosine"}, "unknown schedule 'cosine'; choose one of steps, one-cycle"),
        ({"batches": NO_LENGTH, "schedule": "one-cycle"}, "'one-cycle' needs to know how many batches an epoch has"),
        ({"scheduler": print}, "a scheduler is given without an optimizer"),
        ({"scheduler_every": "batch"}, "scheduler_every is 'epoch' or 'step', not 'batch'"),
        (
            {"optimizer": torch.optim.SGD([torch.zeros(1)], 0.1), "replanning": Replanning("2 bits")},
            "bits that change on the way make new parameters: give the optimizer as a function",
        ),
        ({"epochs": 1, "replanning": Replanning("2 bits")}, "there must be an epoch before bits are chosen"),
        ({"problem": nn.Linear(2, 2)}, "a Lagrangian or a TaskProblem is needed, not a Linear"),
        (
            {"problem": TaskProblem(own_problem().net, F.cross_entropy), "replanning": Replanning("2 bits")},
            "a budget is spent by the multipliers of layers: the problem has no layer constraints",
        ),
    ],
)
def test_bad_arguments_are_refused_before_there_is_a_folder(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    how = {"problem": own_problem(), "batches": TRAINING, **changes}
    with pytest.raises(InputError, match=sentence) as refusal:
        fitted(how.pop("problem"), how.pop("batches"), out=tmp_path / "run", **how)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batches": []}, "there is no batch to train on: the training batches are empty"),
        ({"validation": []}, "there is no batch to evaluate on"),
        ({"batches": [X]}, "a batch must be a pair of inputs and target, not a Tensor"),
        ({"batches": [(X, X, X)]}, "a batch must be a pair of inputs and target, not a tuple of 3"),
        ({"batches": [{"x": X}]}, "a batch must be a pair of inputs and target, not a dict"),
        ({"batches": [("text", 3)]}, "a batch holds no tensor with a sample dimension, but str"),
        ({"validation": [(X,)]}, "a batch must be a pair of inputs and target, not a tuple of 1"),
        ({"metric": "f1"}, "a metric is 'accuracy', 'loss', a function of"),
    ],
)
def test_what_only_the_batches_show_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    how = {"batches": TRAINING, **changes}
    with pytest.raises(InputError, match=sentence) as refusal:
        fitted(own_problem(), how.pop("batches"), **how)
    assert "\n" not in str(refusal.value)


def test_a_metric_can_not_have_the_name_of_another_entry() -> None:
    with pytest.raises(InputError, match="a metric's name is a word other than epoch, lr, objective"):
        Metric("loss", lambda output, _: output)
    with pytest.raises(InputError, match="not 'mean error'"):
        Metric("mean error", lambda output, _: output)


def test_a_loss_that_is_not_a_number_is_said_without_callbacks_too() -> None:
    broken = [TRAINING[0], (TRAINING[1][0] * float("nan"), TRAINING[1][1])]
    with pytest.raises(InputError, match="the inputs of training batch 2 hold what is not a number"):
        fitted(own_problem(), broken)
