"""Trackio: a project on this machine, unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL name a server."""

import contextlib
import io
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdqat.trackers.tracker import PROJECT, Bars, Note, Tracker, Training


class Trackio(Tracker):
    """Numbers by epoch, histograms, options as the configuration; plans and the page as artifacts."""

    name = "trackio"
    package = "trackio"

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self._note = Note(training, self.name)

    def look(self) -> str:
        """The command that shows it."""
        return f"trackio show --project {self._project()}"

    def open(self, done: int) -> int:
        """Go on with the run that the note names, or begin one."""
        import trackio

        note = self._note.read()
        logged = min(int(note.get("epochs", 0)), self._epochs_stored(note))
        if logged > done:  # which can't be taken back
            note, logged = {}, 0
        self._name = str(note.get("run") or f"{self.training.name}-{uuid.uuid4().hex[:6]}")
        with contextlib.redirect_stdout(io.StringIO()):  # it says where it keeps things, in the middle of a bar
            self._run: Any = trackio.init(
                self._project(),
                name=self._name,
                config=dict(self.training.options),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        self._note.write(run=self._name, epochs=logged)
        return logged

    def log(self, epoch: int, numbers: Mapping[str, float], histograms: Mapping[str, Bars]) -> None:
        """As one step, whose number is the epoch's; a thread of Trackio's writes it."""
        import trackio

        bars = {
            name: trackio.Histogram(np_histogram=(list(bars.counts), list(bars.edges)))
            for name, bars in histograms.items()
        }
        self._run.log({**numbers, **bars}, step=epoch)
        self._note.write(run=self._name, epochs=epoch)

    def finish(self, epochs: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """With the last epoch."""
        import trackio

        fenced = {name: trackio.Markdown(f"```toml\n{text}\n```") for name, text in texts.items()}
        self._run.log({**numbers, **fenced}, step=epochs)

    def page(self, path: Path) -> None:
        """As an artifact."""
        self._run.log_artifact(path, name=f"report-{self._name}", type="report")

    def close(self, failed: bool) -> None:
        """Wait until all is written or sent."""
        import trackio

        with contextlib.redirect_stdout(io.StringIO()):
            trackio.finish()

    def _epochs_stored(self, note: Mapping[str, Any]) -> int:
        """On this machine, where a killed process may have left less than it noted; elsewhere what it noted."""
        from trackio.sqlite_storage import SQLiteStorage

        if "run" not in note or "TRACKIO_SPACE_ID" in os.environ or "TRACKIO_SERVER_URL" in os.environ:
            return int(note.get("epochs", 0))
        return int(SQLiteStorage.get_max_step_for_run(self._project(), note["run"]) or 0)

    def _project(self) -> str:
        return os.environ.get("TRACKIO_PROJECT", PROJECT)
