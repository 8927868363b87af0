"""A tracker that keeps what it is told in memory."""

from collections.abc import Mapping
from pathlib import Path

from pdqat.trackers import Bars, Log, Tracker
from pdqat.trackers.tracker import Training


class Kept(Tracker):
    name = "kept"
    package = "json"

    def __init__(self, logged: int = 0, broken_in: tuple[int, ...] = ()) -> None:
        super().__init__(Training(Path("kept"), {}))
        self.logged = logged
        self.broken_in = list(broken_in)
        self.numbers: dict[int, Mapping[str, float]] = {}
        self.histograms: dict[int, Mapping[str, Bars]] = {}
        self.final: dict[str, float | str] = {}
        self.pages: list[Path] = []
        self.ended: list[bool] = []

    def look(self) -> str:
        return "look into memory"

    def open(self, done: int) -> int:
        return min(self.logged, done)

    def log(self, epoch: int, numbers: Mapping[str, float], histograms: Mapping[str, Bars]) -> None:
        if epoch in self.broken_in:
            self.broken_in.remove(epoch)
            raise OSError("no space\nleft")
        assert epoch not in self.numbers
        self.numbers[epoch], self.histograms[epoch] = numbers, histograms

    def finish(self, epochs: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        self.final = {**numbers, **texts}

    def page(self, path: Path) -> None:
        self.pages.append(path)

    def close(self, failed: bool) -> None:
        self.ended.append(failed)


def kept_log(logged: int = 0, broken_in: tuple[int, ...] = ()) -> tuple[Log, Kept]:
    tracker = Kept(logged, broken_in)
    return Log(tracker), tracker
