"""MLflow: a run in the store that its environment names (MLFLOW_TRACKING_URI), by default mlflow.db in this folder."""

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdqat.trackers.tracker import PROJECT, Bars, Note, Tracker, Training

MARK = "epochs logged"
"""The last number of every epoch: one that has it is whole."""
AT_ONCE = 1000
"""The most numbers that MLflow takes in one request."""
OPTIONS_AT_ONCE = 100
LONGEST_NAME = 250
NOT_ALLOWED = re.compile(r"[^\w.\- :/]|(?<=/)/|^\.*/|/$", re.ASCII)
"""In names."""


class MLflow(Tracker):
    """Numbers as metrics, options as parameters; histograms, plans and the page as artifacts."""

    name = "mlflow"
    package = "mlflow"

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self._note = Note(training, self.name)
        self._run = ""

    def look(self) -> str:
        """The command that shows it."""
        uri = self._uri()
        is_file = uri.startswith("sqlite:")  # others may hold a password
        return f"mlflow ui --backend-store-uri {uri}" if is_file else "the MLflow store that MLFLOW_TRACKING_URI names"

    def open(self, done: int) -> int:
        """Go on with the run that the note names, or begin one."""
        from mlflow import MlflowClient

        with _only_warnings():
            self._client: Any = MlflowClient(self._uri())
            self._run = str(self._note.read().get("run", ""))
            logged = self._epochs_logged()
            if not self._run or logged > done:  # which can't be taken back
                self._run, logged = self._begun(), 0
            self._client.update_run(self._run, "RUNNING")
        return logged

    def log(self, epoch: int, numbers: Mapping[str, float], histograms: Mapping[str, Bars]) -> None:
        """In one transaction, but for very many."""
        if histograms:
            content = {name: {"edges": [*bars.edges], "counts": [*bars.counts]} for name, bars in histograms.items()}
            self._client.log_dict(self._run, content, f"histograms/epoch-{epoch:04}.json")
        self._log_numbers(epoch, {**numbers, MARK: epoch})

    def finish(self, epochs: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Texts as files."""
        self._log_numbers(epochs, numbers)
        for name, text in texts.items():
            self._client.log_text(self._run, text, f"{_name(name)}.toml")

    def page(self, path: Path) -> None:
        """As it is."""
        self._client.log_artifact(self._run, str(path))

    def close(self, failed: bool) -> None:
        """Say how it ended."""
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")

    def _log_numbers(self, epoch: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(_name(name), number, now, epoch) for name, number in numbers.items()]
        for some in _parts(metrics, AT_ONCE):
            self._client.log_batch(self._run, some, synchronous=True)

    def _uri(self) -> str:
        """Of the store: that which the run was begun in, as far as it is a file, else what the environment says."""
        import mlflow

        return str(self._note.read().get("uri") or mlflow.get_tracking_uri())

    def _epochs_logged(self) -> int:
        marks = self._client.get_metric_history(self._run, MARK) if self._run else []
        return max((mark.step for mark in marks), default=0)

    def _begun(self) -> str:
        from mlflow.entities import Param

        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        known = self._client.get_experiment_by_name(experiment)
        number = self._client.create_experiment(experiment) if known is None else known.experiment_id
        run = str(self._client.create_run(number, run_name=self.training.name).info.run_id)
        uri = self._uri()
        self._note.write(run=run, **({"uri": uri} if uri.startswith("sqlite:") else {}))  # others may hold a password
        options = [Param(_name(key), str(value)) for key, value in self.training.options.items()]
        for some in _parts(options, OPTIONS_AT_ONCE):
            self._client.log_batch(run, params=some)
        return run


def _name(name: str) -> str:
    """As MLflow allows it."""
    return NOT_ALLOWED.sub("_", name)[:LONGEST_NAME]


def _parts(whole: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [whole[start : start + size] for start in range(0, len(whole), size)]


@contextmanager
def _only_warnings() -> Iterator[None]:
    """Without a line for every table of a new database."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
