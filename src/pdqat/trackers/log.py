"""Log: the callback that tells a tracker of a training. It reads what is there and changes nothing of it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import tomli_w

from pdqat.disk import as_path
from pdqat.errors import InputError
from pdqat.printing import complain
from pdqat.suggestions import did_you_mean
from pdqat.task import Problem
from pdqat.trackers.entries import histograms_of, numbers_in, scores_of
from pdqat.trackers.mlflow import MLflow
from pdqat.trackers.tensorboard import TensorBoard
from pdqat.trackers.tracker import Tracker, Training
from pdqat.trackers.trackio import Trackio
from pdqat.trackers.wandb import WandB
from pdqat.training.callbacks import Callback
from pdqat.training.history import History

TRACKERS: dict[str, type[Tracker]] = {tracker.name: tracker for tracker in (TensorBoard, MLflow, WandB, Trackio)}
"""By the names that configurations know."""


def log_to(name: str, folder: str | Path, options: Mapping[str, Any] | None = None) -> "Log":
    """A callback for `fit` that logs to a tracker: every epoch's numbers and weights, and the final plan.

    Args:
        name: "tensorboard", "mlflow", "wandb" or "trackio".
        folder: of the training. It holds the log, or a note by which a training that is resumed finds it again; its
            name is that of the training in the tracker. May be the `out` of `fit`.
        options: what the training is to be known by, such as {"bits": 2, "lr": 1e-3}.

    Examples:
        >>> import pdqat, tempfile, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
        >>> with tempfile.TemporaryDirectory() as folder, log_to("tensorboard", folder) as log:
        ...     _ = pdqat.fit(problem, [(x, y)], validation=[(x, y)], epochs=1, progress=False, callbacks=[log])
    """
    check_trackers([name])
    return Log(TRACKERS[name](Training(as_path(folder, "the folder of a log"), dict(options or {}))))


def check_trackers(names: Sequence[str]) -> None:
    """Raise InputError if one of them is unknown or not installed."""
    for name in names:
        if name not in TRACKERS:
            known = ", ".join(TRACKERS)
            raise InputError(f"there is no log {name!r}{did_you_mean(name, TRACKERS)}; choose one of {known}")
        TRACKERS[name].check()


class Log(Callback):
    """Tells a tracker of a training. As a block, it closes the log at its end, also where the training fails.

    A tracker that does not work at the start is an error. Later it is not: the training goes on, and what is missing is
    logged as soon as that works again, histograms excepted.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self._logged: int | None = None
        self._complained = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(failed=kind is not None)

    def start(self, epochs: int, steps: int | None, done: int) -> None:
        """Begin the log, or go on with it."""
        try:
            self._logged = self.tracker.open(done)
        except Exception as error:  # whatever a tracker and its network can raise
            raise InputError(f"can't log to {self.tracker.name}: {_reason(error)}") from error

    def state(self, problem: Problem, entries: Sequence[dict[str, Any]]) -> None:
        """Log all epochs that are not logged yet; weights are those of the last one."""
        self._try(lambda: self._catch_up(problem, entries))

    def finish(self, history: History) -> None:
        """Log the plan of every view, as a file that `pdqat train --plan` reads, and the final scores."""
        summary = history.summary
        plans = {f"plan/{view}": tomli_w.dumps({"layers": plan}) for view, plan in summary["plans"].items()}
        self._try(lambda: self.tracker.finish(summary["epochs"], scores_of(summary), plans))

    def keep_page(self, path: str | Path) -> None:
        """Keep an HTML file with the log, such as what `pdqat.report` wrote."""
        self._try(lambda: self.tracker.page(Path(path)))

    def close(self, failed: bool = False) -> None:
        """End the log, if it was begun."""
        if self._logged is not None:
            self._logged = None
            self._try(lambda: self.tracker.close(failed))

    def _catch_up(self, problem: Problem, entries: Sequence[dict[str, Any]]) -> None:
        assert self._logged is not None
        for entry in entries[self._logged :]:
            is_new = entry is entries[-1]
            self.tracker.log(entry["epoch"], numbers_in(entry), histograms_of(problem) if is_new else {})
            self._logged = entry["epoch"]

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # a training is worth more than its log
            if not self._complained:
                complain(f"{self.tracker.name} did not take the log ({_reason(error)}); the training goes on")
            self._complained = True


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
