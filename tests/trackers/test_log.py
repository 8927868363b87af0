"""What trackers are told of a training, whatever they are."""

import tomllib
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from interrupted import Interrupt
from kept_log import Kept, kept_log
from own_problem import DATA, fitted, own_problem
from pdqat.constraints import ChannelConstraint, OutputConstraint
from pdqat.errors import InputError
from pdqat.layers.modes import evaluating
from pdqat.runs.folder import Run
from pdqat.task import TaskProblem
from pdqat.trackers import Log, log_to
from pdqat.trackers.tracker import Note, Training
from same_run import assert_same_run


def shuffled() -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(DATA, batch_size=16, shuffle=True)


def test_a_training_ends_with_the_same_bits_whether_it_is_logged_or_not(tmp_path: Path) -> None:
    log, _ = kept_log()
    for name, callbacks in (("plain", []), ("logged", [log])):
        fitted(own_problem(), shuffled(), flip_rate=0.1, out=tmp_path / name, callbacks=callbacks)
    assert_same_run(Run.open(tmp_path / "plain"), Run.open(tmp_path / "logged"))


def test_every_number_of_every_epoch_is_logged() -> None:
    log, kept = kept_log()
    history = fitted(own_problem(), flip_rate=0.1, callbacks=[log])
    assert list(kept.numbers) == [1, 2]
    for entry in history.epochs:
        numbers = kept.numbers[entry["epoch"]]
        for name in ("objective", "loss", "lr", "flip_rate"):
            assert numbers[name] == entry[name]
        assert {view: numbers[f"accuracy/{view}"] for view in ("full", "2-bit")} == entry["accuracy"]
        for bound in entry["constraints"]:
            for key in ("slack", "multiplier", "distance", "tolerance"):
                assert numbers[f"{key}/{bound['name']}"] == bound[key]
    assert kept.final["final/accuracy/2-bit/validation"] == history.scores["2-bit"]["validation"]


def test_a_bound_per_channel_has_a_slack_and_a_multiplier_for_each() -> None:
    log, kept = kept_log()
    problem = own_problem(constraints=[OutputConstraint(), ChannelConstraint()])
    history = fitted(problem, epochs=1, callbacks=[log])
    (bound,) = [bound for bound in history.epochs[0]["constraints"] if bound["where"] == "4"]
    for key in ("slack", "multiplier"):
        logged = [kept.numbers[1][f"{key}/2-bit/channel/4/{channel}"] for channel in range(8)]
        assert logged == bound[key]


def test_histograms_count_the_weights_and_what_they_are_rounded_to() -> None:
    problem, (log, kept) = own_problem(), kept_log()
    fitted(problem, epochs=1, callbacks=[log])
    layer = problem.net.layers["4"]
    weights, levels = (kept.histograms[1][f"{what}/2-bit/4"] for what in ("weights", "levels"))
    assert sum(weights.counts) == sum(levels.counts) == layer.weight.numel()
    assert len(weights.edges) == len(weights.counts) + 1
    with evaluating(problem.net), problem.net.under("2-bit"), torch.no_grad():
        rounded = layer.views["2-bit"].weight.quantize(layer.rows, 2).flatten()  # type: ignore[union-attr,operator]
    expected = torch.histogram(rounded.double(), torch.tensor(levels.edges, dtype=torch.float64)).hist
    assert list(levels.counts) == [int(count) for count in expected]


def test_full_precision_alone_has_no_levels() -> None:
    log, kept = kept_log()
    fitted(TaskProblem(own_problem().net, torch.nn.functional.cross_entropy, low=False), epochs=1, callbacks=[log])
    assert kept.histograms == {1: {}}
    assert "accuracy/full" in kept.numbers[1]


def test_the_plan_is_one_that_can_be_read_again() -> None:
    log, kept = kept_log()
    history = fitted(own_problem(), epochs=1, callbacks=[log])
    assert tomllib.loads(str(kept.final["plan/2-bit"]))["layers"] == history.summary["plans"]["2-bit"]


@pytest.mark.parametrize("logged", [0, 1, 2])
def test_a_resumed_training_logs_what_is_missing(tmp_path: Path, logged: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted(own_problem(), epochs=4, out=tmp_path / "run", callbacks=[Interrupt(epoch=2)])
    log, kept = kept_log(logged)
    history = fitted(own_problem(), epochs=4, out=tmp_path / "run", resume=True, callbacks=[log])
    assert list(kept.numbers) == [*range(logged + 1, 5)]
    assert [numbers["loss"] for numbers in kept.numbers.values()] == [
        entry["loss"] for entry in history.epochs[logged:]
    ]


def test_a_tracker_that_fails_on_the_way_costs_no_training_and_gets_the_rest_later(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, kept = kept_log(broken_in=(1, 2))
    assert len(fitted(own_problem(), epochs=3, callbacks=[log]).epochs) == 3
    assert list(kept.numbers) == [1, 2, 3]
    assert [bool(histograms) for histograms in kept.histograms.values()] == [False, False, True]
    assert capsys.readouterr().err == "pdqat: kept did not take the log (no space); the training goes on\n"


def test_a_tracker_that_does_not_open_is_told_at_once() -> None:
    class Shut(Kept):
        def open(self, done: int) -> int:
            raise PermissionError("who are you?")

    with pytest.raises(InputError, match=r"^can't log to kept: who are you\?$"):
        fitted(own_problem(), callbacks=[Log(Shut())])


def test_a_block_closes_the_log_and_says_whether_the_training_failed() -> None:
    log, kept = kept_log()
    with log:
        fitted(own_problem(), epochs=1, callbacks=[log])
        log.keep_page("report.html")
    assert (kept.pages, kept.ended) == ([Path("report.html")], [False])
    log, kept = kept_log()
    with pytest.raises(KeyboardInterrupt), log:
        fitted(own_problem(), callbacks=[log, Interrupt(epoch=1)])
    assert kept.ended == [True]
    log, kept = kept_log()
    with log:
        pass  # never begun
    assert kept.ended == []


def test_a_missing_package_is_one_sentence_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdqat.trackers.tensorboard.TensorBoard.package", "no_such_package")
    sentence = r"^the log 'tensorboard' can't be written \(No module .*\); install it with: pip install 'pdqat\[tensorb"
    with pytest.raises(InputError, match=sentence):
        log_to("tensorboard", "folder")


def test_an_unknown_tracker_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"there is no log 'tensorbord' \(did you mean tensorboard\?\); choose one"):
        log_to("tensorbord", "folder")


@pytest.mark.parametrize("content", ["[]", "{", '"text"'])
def test_a_damaged_note_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "mlflow.json").write_text(content)
    with pytest.raises(InputError, match=r"mlflow.json, by which a log is continued"):
        Note(Training(tmp_path), "mlflow").read()
