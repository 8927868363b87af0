"""TensorBoard's files, read back by TensorBoard."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from interrupted import Interrupt, Snapshots
from own_problem import fitted, own_problem
from pdqat.trackers import log_to
from pdqat.trackers.entries import numbers_in
from pdqat.trackers.tensorboard import TensorBoard
from pdqat.trackers.tracker import Training

ALL = {"scalars": 0, "histograms": 0, "tensors": 0}


def events(folder: Path) -> EventAccumulator:
    read = EventAccumulator(str(folder / "tensorboard"), size_guidance=ALL)
    read.Reload()
    return read


def series(folder: Path, name: str) -> list[Any]:
    return [(event.step, event.value) for event in events(folder).Scalars(name)]


def text(read: EventAccumulator, name: str) -> str:
    return str(read.Tensors(f"{name}/text_summary")[0].tensor_proto.string_val[0].decode())


def test_numbers_histograms_plan_options_and_report_are_in_the_files(tmp_path: Path) -> None:
    problem = own_problem()
    with log_to("tensorboard", tmp_path, {"bits": 2}) as log:
        history = fitted(problem, callbacks=[log])
        log.keep_page(tmp_path / "report.html")
    read = events(tmp_path)
    for name in numbers_in(history.epochs[0]):
        logged = [(event.step, event.value) for event in read.Scalars(name)]
        assert logged == [(entry["epoch"], pytest.approx(numbers_in(entry)[name])) for entry in history.epochs]
    for what in ("weights", "levels"):
        steps = read.Histograms(f"{what}/2-bit/4")
        assert [event.step for event in steps] == [1, 2]
        assert {event.histogram_value.num for event in steps} == {problem.net.layers["4"].weight.numel()}
    assert text(read, "options") == "    bits = 2"
    assert '    4 = "2"' in text(read, "plan/2-bit").splitlines()
    assert text(read, "report") == f"    {tmp_path / 'report.html'}"
    assert [event.step for event in read.Scalars("final/accuracy/2-bit/validation")] == [2]


@pytest.mark.parametrize("before", [True, False], ids=["killed before it was logged", "killed after"])
def test_a_killed_training_that_is_resumed_has_every_epoch_once(tmp_path: Path, before: bool) -> None:
    run = tmp_path / "run"
    log: Any = log_to("tensorboard", run)
    copying = Snapshots(run, tmp_path)
    history = fitted(own_problem(), epochs=4, out=run, callbacks=[copying, log] if before else [log, copying])
    killed = tmp_path / "2"
    assert [step for step, _ in series(killed, "loss")] == ([1] if before else [1, 2])
    fitted(own_problem(), epochs=4, out=killed, resume=True, callbacks=[log_to("tensorboard", killed)])
    assert series(killed, "loss") == series(run, "loss")
    assert series(killed, "loss") == [(entry["epoch"], pytest.approx(entry["loss"])) for entry in history.epochs]


def test_an_epoch_that_was_logged_in_part_is_logged_anew(tmp_path: Path) -> None:
    first = TensorBoard(Training(tmp_path))
    assert first.open(0) == 0
    first.log(1, {"loss": 1.0}, {})
    first._writer.add_scalar("loss", 99.0, 2)
    first.close(failed=True)
    second = TensorBoard(Training(tmp_path))
    assert second.open(2) == 1
    second.log(2, {"loss": 0.5}, {})
    second.close(failed=False)
    assert series(tmp_path, "loss") == [(1, 1.0), (2, 0.5)]


def test_a_training_that_starts_anew_leaves_nothing_of_what_was_before(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt), log_to("tensorboard", run) as log:
        fitted(own_problem(), epochs=4, out=run, callbacks=[log, Interrupt(epoch=3)])
    (run / "last.pt").unlink()
    history = fitted(own_problem(), epochs=4, out=run, resume=True, callbacks=[log_to("tensorboard", run)])
    assert series(run, "loss") == [(entry["epoch"], pytest.approx(entry["loss"])) for entry in history.epochs]
