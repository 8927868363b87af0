"""Where a training keeps its states: in a run folder, or in memory."""

import copy
from typing import Any, Protocol

from pdqat.distributed import from_first
from pdqat.errors import InputError
from pdqat.runs.checkpoints import load_checkpoint, save_checkpoint
from pdqat.runs.folder import Run

State = dict[str, Any]


class Store(Protocol):
    """Keeps the best and the last state, the metrics and the summary."""

    def last(self) -> State | None:
        """The state to continue from, if there is one."""

    def best(self) -> State:
        """The state of the best epoch."""

    def metrics(self, epochs: int) -> list[State]:
        """The entries of the first so many epochs."""

    def save(self, metrics: list[State], state: State, is_best: bool, rest: State) -> None:
        """After an epoch: `state` is what a model is made of, `rest` what only continuing needs."""

    def finish(self, summary: State) -> None:
        """The training is done."""

    def where(self) -> str | None:
        """What holds the last state, for messages; None if nothing does."""


class FolderStore:
    """Files of a run folder: whatever stops the process, what `last` says is done is on disk."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def last(self) -> State | None:
        """Of last.pt."""
        if not self.run.last.exists():
            return None
        state = load_checkpoint(self.run.last)
        load_checkpoint(self.run.best)  # needed at the end: say now if it is lost
        return state

    def best(self) -> State:
        """Of best.pt."""
        return load_checkpoint(self.run.best)

    def metrics(self, epochs: int) -> list[State]:
        """Of metrics.jsonl."""
        entries = self.run.metrics()[:epochs]
        if len(entries) < epochs:
            raise InputError(
                f"{self.run.metrics_file} ends with epoch {len(entries)}, "
                f"but {self.run.last} holds the state after epoch {epochs}"
            )
        return entries

    def save(self, metrics: list[State], state: State, is_best: bool, rest: State) -> None:
        """Metrics and best first, last at the end."""
        self.run.write_metrics(metrics)
        if is_best:
            save_checkpoint(self.run.best, state)
        save_checkpoint(self.run.last, {**state, **rest})

    def finish(self, summary: State) -> None:
        """The last thing that a run writes."""
        self.run.write_summary(summary)

    def where(self) -> str:
        """The file."""
        return str(self.run.last)


class MemoryStore:
    """Copies in memory: a training without a folder starts anew each time."""

    def __init__(self) -> None:
        self._best: State | None = None

    def last(self) -> State | None:
        """There is none to continue from."""
        return None

    def best(self) -> State:
        """The copy."""
        assert self._best is not None
        return self._best

    def metrics(self, epochs: int) -> list[State]:
        """None from before."""
        return []

    def save(self, metrics: list[State], state: State, is_best: bool, rest: State) -> None:
        """Copy the best state."""
        if is_best:
            self._best = copy.deepcopy(state)

    def finish(self, summary: State) -> None:
        """Nothing to write."""

    def where(self) -> None:
        """Only the best state is kept."""


class FirstStore:
    """The store of the first process, from which all others read and to which none of them writes; collective."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def last(self) -> State | None:
        """As the first process has it."""
        return from_first(self._store.last)

    def best(self) -> State:
        """As the first process has it."""
        return from_first(self._store.best)

    def metrics(self, epochs: int) -> list[State]:
        """As the first process has them."""
        return from_first(lambda: self._store.metrics(epochs))

    def save(self, metrics: list[State], state: State, is_best: bool, rest: State) -> None:
        """By the first process; the others wait until it has, or hear why it could not."""
        from_first(lambda: self._store.save(metrics, state, is_best, rest))

    def finish(self, summary: State) -> None:
        """By the first process."""
        from_first(lambda: self._store.finish(summary))

    def where(self) -> str | None:
        """As the first process says."""
        return self._store.where()
