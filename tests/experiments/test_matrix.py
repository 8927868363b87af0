"""The matrix with an executor that trains nothing: order, limits, failures."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from configured import create
from finished_cell import MULTIPLIERS, finish
from pdqat.config.presets import config_of
from pdqat.config.train_config import Method
from pdqat.errors import InputError
from pdqat.experiments.cells import Cell, Kept
from pdqat.experiments.matrix import Matrix, Status
from pdqat.experiments.train_cell import BUSY
from pdqat.paper.protocols import PROTOCOLS

TRIAL = PROTOCOLS["trial"]
BASE = Cell(Method.PDQAT_LAYERS, 2, 0, 0.1, 0.7)
OTHERS = [Cell(Method.STE, bits, 0) for bits in (1, 2, 4)]


class Job:
    """Ends when it is looked at for the second time, unless held."""

    def __init__(self, folder: Path, end: Callable[[Path], int | None]) -> None:
        self.folder, self._end, self._looks, self.stopped = folder, end, 0, False

    def ended(self) -> int | None:
        self._looks += 1
        return None if self._looks < 2 else self._end(self.folder)

    def stop(self) -> None:
        self.stopped = True


class Pretender:
    """An executor that only writes files."""

    def __init__(self, jobs: int = 1, fails: Sequence[str] = ()) -> None:
        self.jobs, self._fails = jobs, fails
        self.begun: list[str] = []
        self.made: list[Job] = []

    def start(self, folder: Path) -> Job:
        self.begun.append(folder.name)
        self.made.append(Job(folder, self._end))
        return self.made[-1]

    def _end(self, folder: Path) -> int | None:
        if folder.name in self._fails:
            (folder / "train.log").write_text("some lines\npdqat: the loss is not a number\n")
            return 2
        finish(folder)
        return 0


class Notes:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.most_running = 0
        self.last: Sequence[Status] = ()

    def update(self, states: Sequence[Status]) -> None:
        self.most_running = max(self.most_running, sum(state.running for state in states))
        self.last = states

    def started(self, cell: Cell, done: int) -> None:
        self.said.append(f"{cell.name} after {done}")

    def finished(self, cell: Cell) -> None:
        self.said.append(f"{cell.name} finished")

    def failed(self, cell: Cell, reason: str) -> None:
        self.said.append(f"{cell.name} failed: {reason}")


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdqat.experiments.matrix.POLL_SECONDS", 0.0)


def matrix(folder: Path, cells: Sequence[Cell]) -> Matrix:
    return Matrix(cells, TRIAL, folder)


def test_each_cell_is_trained_once_in_order(tmp_path: Path) -> None:
    executor, notes = Pretender(), Notes()
    matrix(tmp_path, [*OTHERS, OTHERS[0]]).run(executor, notes)
    assert executor.begun == [cell.name for cell in OTHERS]
    assert all(state.finished for state in notes.last)
    again = Pretender()
    matrix(tmp_path, OTHERS).run(again, Notes())
    assert again.begun == []


def test_a_begun_cell_keeps_its_configuration_and_is_continued(tmp_path: Path) -> None:
    cell = OTHERS[0]
    create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path))
    before = cell.run(tmp_path).config_file.read_bytes()
    cell.run(tmp_path).write_metrics([{}])
    cell.run(tmp_path).last.touch()
    notes = Notes()
    matrix(tmp_path, [cell]).run(Pretender(), notes)
    assert notes.said == [f"{cell.name} after 1", f"{cell.name} finished"]
    assert cell.run(tmp_path).config_file.read_bytes() == before


def test_bfloat16_is_for_cells_that_start_and_may_differ_between_cells(tmp_path: Path) -> None:
    begun, new = OTHERS[:2]
    create(begun.run(tmp_path).path, begun.config(TRIAL, tmp_path))
    Matrix([begun, new], TRIAL, tmp_path, amp=True).run(Pretender(), Notes())
    assert [config_of(cell.run(tmp_path)).amp for cell in (begun, new)] == [False, True]
    matrix(tmp_path, [begun, new]).check()


def test_metrics_without_a_checkpoint_are_no_epoch_to_continue_after(tmp_path: Path) -> None:
    cell = OTHERS[0]
    create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path)).write_metrics([{}])
    notes = Notes()
    matrix(tmp_path, [cell]).run(Pretender(), notes)
    assert notes.said == [f"{cell.name} after 0", f"{cell.name} finished"]


def test_a_folder_that_was_only_just_made_is_no_obstacle(tmp_path: Path) -> None:
    OTHERS[0].run(tmp_path).path.mkdir(parents=True)
    matrix(tmp_path, OTHERS[:1]).run(Pretender(), Notes())
    assert config_of(OTHERS[0].run(tmp_path)).bits == ["1"]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_no_more_cells_at_once_than_asked_for(tmp_path: Path, jobs: int) -> None:
    notes = Notes()
    matrix(tmp_path, OTHERS).run(Pretender(jobs), notes)
    assert notes.most_running == min(jobs, len(OTHERS))


@pytest.mark.parametrize(("largest", "kept"), [(True, ["stages.0.0.conv1", "stages.1.0.conv0"]), (False, None)])
def test_kept_layers_follow_from_the_finished_base(tmp_path: Path, largest: bool, kept: list[str] | None) -> None:
    cell = Cell(Method.PDQAT_LAYERS, 2, 0, 0.1, 0.7, kept=Kept(BASE, 2, largest))
    executor = Pretender(jobs=4)
    matrix(tmp_path, [cell]).run(executor, Notes())
    assert executor.begun == [BASE.name, cell.name]
    expected = kept or ["stages.0.0.conv0", "stages.1.0.conv0"]
    assert config_of(cell.run(tmp_path)).plan == {name: "full" if name in expected else "2" for name in MULTIPLIERS}


def test_a_start_whose_weights_are_not_there_is_named(tmp_path: Path) -> None:
    cell = Cell(Method.PDQAT_LAYERS, 2, 0, 0.1, 0.7, variant="warm-start", starts_from=OTHERS[0])
    executor = Pretender()
    with pytest.raises(InputError, match=r"ste-1bit-seed0, which has no best.pt .*; remove that folder to train it"):
        matrix(tmp_path, [cell]).run(executor, Notes())
    begun = cell.run(tmp_path)
    begun.path.mkdir()
    begun.last.touch()
    matrix(tmp_path, [cell]).run(executor, Notes())
    assert executor.begun == [OTHERS[0].name, cell.name]


def test_a_failure_is_reported_and_the_rest_is_trained(tmp_path: Path) -> None:
    needs_it = Cell(Method.PDQAT_LAYERS, 2, 0, 0.1, 0.7, kept=Kept(BASE, 2, True))
    executor, notes = Pretender(fails=[BASE.name]), Notes()
    with pytest.raises(
        InputError, match=f"2 of 5 cells failed: {BASE.name}: the loss is not a number; {needs_it.name}"
    ):
        matrix(tmp_path, [needs_it, *OTHERS]).run(executor, notes)
    assert executor.begun == [BASE.name, *(cell.name for cell in OTHERS)]
    assert f"{BASE.name} failed: the loss is not a number" in notes.said
    assert f"{needs_it.name} failed: it needs {BASE.name}" in notes.said


def test_a_cell_that_another_process_trains_is_waited_for(tmp_path: Path) -> None:
    cell = OTHERS[0]
    run = create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path))
    polls = 0

    class Elsewhere(Notes):
        def update(self, states: Sequence[Status]) -> None:
            nonlocal polls
            polls += 1
            if polls == 3:
                finish(run.path)

    executor = Pretender()
    with run.locked():
        matrix(tmp_path, [cell]).run(executor, Elsewhere())
    assert executor.begun == []
    assert polls >= 3


def test_a_cell_that_another_process_took_first_is_no_failure(tmp_path: Path) -> None:
    class Late(Pretender):
        def _end(self, folder: Path) -> int | None:
            if len(self.begun) == 1:
                return BUSY
            return super()._end(folder)

    executor = Late()
    matrix(tmp_path, OTHERS[:1]).run(executor, Notes())
    assert len(executor.begun) == 2


def test_what_is_in_training_is_stopped_when_the_matrix_is(tmp_path: Path) -> None:
    class Interrupting(Notes):
        def update(self, states: Sequence[Status]) -> None:
            raise KeyboardInterrupt

    executor = Pretender(2)
    with pytest.raises(KeyboardInterrupt):
        matrix(tmp_path, OTHERS).run(executor, Interrupting())
    assert [job.stopped for job in executor.made] == [True, True]


def test_a_cell_of_another_protocol_is_neither_continued_nor_taken_for_finished(tmp_path: Path) -> None:
    cell = OTHERS[0]
    create(cell.run(tmp_path).path, cell.config(PROTOCOLS["budget"], tmp_path))
    with pytest.raises(InputError, match=r"was trained with data = 'cifar10', but protocol 'trial' has 'digits'"):
        matrix(tmp_path, [cell]).run(Pretender(), Notes())
    finish(cell.run(tmp_path).path)
    with pytest.raises(InputError, match="but protocol 'trial' has"):
        matrix(tmp_path, [cell]).run(Pretender(), Notes())


def test_a_damaged_base_is_named_and_the_rest_is_trained(tmp_path: Path) -> None:
    needs_it = Cell(Method.PDQAT_LAYERS, 2, 0, 0.1, 0.7, kept=Kept(BASE, 2, True))
    create(BASE.run(tmp_path).path, BASE.config(TRIAL, tmp_path))
    BASE.run(tmp_path).measured_file.write_text("{}")
    executor = Pretender()
    failed = rf"2 of 3 cells failed: {BASE.name}: .* is damaged: .*; {needs_it.name}: it needs {BASE.name}"
    with pytest.raises(InputError, match=failed):
        matrix(tmp_path, [needs_it, OTHERS[0]]).run(executor, Notes())
    assert executor.begun == [OTHERS[0].name]


def test_a_cell_that_was_killed_says_so(tmp_path: Path) -> None:
    class Killing(Pretender):
        def _end(self, folder: Path) -> int | None:
            return -9

    with pytest.raises(InputError, match="it was ended by signal 9"):
        matrix(tmp_path, OTHERS[:1]).run(Killing(), Notes())


def test_states_count_epochs(tmp_path: Path) -> None:
    cell = OTHERS[0]
    run = create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path))
    run.write_metrics([{}])
    run.last.touch()
    (state,) = matrix(tmp_path, [cell]).states()
    assert (state.done, state.epochs, state.finished) == (1, TRIAL.options["epochs"], False)
    assert state.work_done == state.work / 2
