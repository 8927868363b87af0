"""What training shows while it runs."""

import io
import re
from typing import Any

import pytest

from pdqat.terminal import PlainConsole
from pdqat.training.progress import TrainingProgress


def entry(epoch: int, **changes: Any) -> dict[str, Any]:
    constraints = [{"slack": -0.25}, {"slack": [-0.5, 0.125]}]
    accuracy = {"full": 0.9, "2-bit": 0.5}
    scores = {"metric": "accuracy", "accuracy": accuracy}
    return {"epoch": epoch, "objective": 2.5, "loss": 1.25, **scores, "constraints": constraints} | changes


def test_a_terminal_shows_a_bar_with_epoch_loss_accuracies_and_worst_slack() -> None:
    console = PlainConsole(file=io.StringIO(), force_terminal=True, width=120)
    with TrainingProgress(console) as progress:
        progress.start(epochs=4, steps=10, done=1)
        progress.epoch(entry(1))
        progress.step(epoch=2, step=5, objective=2.75)
    assert isinstance(console.file, io.StringIO)
    shown = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    for part in ("epoch 2/4", "15/40", "objective 2.750", "loss 1.250", "full 90.00%", "2-bit 50.00%", "slack +0.125"):
        assert part in shown


def test_a_log_file_gets_a_line_an_epoch() -> None:
    console = PlainConsole(file=io.StringIO(), width=40)
    with TrainingProgress(console) as progress:
        progress.start(epochs=2, steps=10, done=0)
        for epoch in (1, 2):
            progress.step(epoch, 10, 2.5)
            progress.epoch(entry(epoch, constraints=[]))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        f"epoch {epoch}/2  objective 2.500  loss 1.250  full 90.00%  2-bit 50.00%" for epoch in (1, 2)
    ]


def test_other_scores_than_accuracies_are_no_percentages() -> None:
    console = PlainConsole(file=io.StringIO(), width=80)
    progress = TrainingProgress(console)
    progress.start(epochs=1, steps=None, done=0)
    progress.step(1, 10, 2.5)
    progress.epoch(entry(1, metric="error", error={"full": 12.34567, "2-bit": 0.5}, constraints=[]))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "epoch 1/1  objective 2.500  loss 1.250  full 12.35  2-bit 0.5\n"


def test_bits_that_were_chosen_anew_are_said() -> None:
    console = PlainConsole(file=io.StringIO(), width=80)
    TrainingProgress(console).epoch(entry(2, bits_chosen_by="multipliers"))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("bits chosen by multipliers before epoch 2\n")


class Clock:
    """A second later with every look."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_the_time_left_goes_by_the_steps_of_this_sitting() -> None:
    console = PlainConsole(file=io.StringIO(), width=80)
    progress = TrainingProgress(console, Clock())
    progress.start(epochs=4, steps=20, done=1)
    progress.step(2, 10, 2.5)  # at 1 s
    progress.step(2, 20, 2.5)
    progress.epoch(entry(2, constraints=[]))  # at 3 s, with 40 steps to go: 2 s for the 10 steps since the first report
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().endswith("  0:00:08 left\n")


def test_the_number_of_steps_is_learnt_where_a_loader_does_not_know_it() -> None:
    console = PlainConsole(file=io.StringIO(), width=80)
    progress = TrainingProgress(console, Clock())
    progress.start(epochs=3, steps=None, done=0)
    for epoch in (1, 2):
        progress.step(epoch, 7, 2.5)
        progress.epoch(entry(epoch, constraints=[]))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().endswith("  0:00:02 left\n")  # 7 steps to go, and the last 7 took 2 s
    assert progress._bar.tasks[0].total == 21


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_training_that_compiles_says_so(is_terminal: bool) -> None:
    console = PlainConsole(file=io.StringIO(), force_terminal=is_terminal, width=120)
    with TrainingProgress(console) as progress:
        progress.start(epochs=4, steps=10, done=0)
        progress.busy("compiling the training step")
    assert isinstance(console.file, io.StringIO)
    assert "compiling the training step" in console.file.getvalue()
