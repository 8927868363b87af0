"""TensorBoard: event files in the folder `tensorboard` of the training."""

import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pdqat.trackers.tracker import Bars, Tracker

MARK = "epochs logged"
"""The last number of every epoch: one that has it is whole."""


class TensorBoard(Tracker):
    """Numbers as scalars, weights and levels as histograms, plans as texts; of a page, where it is."""

    name = "tensorboard"
    package = "tensorboard"

    def look(self) -> str:
        """The command that shows it."""
        return f"tensorboard --logdir {self._folder}"

    def open(self, done: int) -> int:
        """Go on behind the last whole epoch; TensorBoard leaves out what was written of later ones."""
        from torch.utils.tensorboard import SummaryWriter

        logged = min(self._epochs_logged(), done)
        # Files are read in the order of their names, which begin with a second: wait until this one's comes last.
        while any(f".{int(time.time())}." in file.name for file in self._folder.glob("events.*")):
            time.sleep(0.05)
        self._writer: Any = SummaryWriter(str(self._folder), purge_step=logged + 1)
        if not logged and self.training.options:
            self._write("options", "\n".join(f"{key} = {value}" for key, value in self.training.options.items()))
        return logged

    def log(self, epoch: int, numbers: Mapping[str, float], histograms: Mapping[str, Bars]) -> None:
        """On disk when this returns."""
        for name, bars in histograms.items():
            centres = [(low + high) / 2 for low, high in pairwise(bars.edges)]
            pairs = list(zip(centres, bars.counts, strict=True))
            self._writer.add_histogram_raw(
                name,
                min=bars.edges[0],
                max=bars.edges[-1],
                num=sum(bars.counts),
                sum=sum(centre * count for centre, count in pairs),
                sum_squares=sum(centre**2 * count for centre, count in pairs),
                bucket_limits=list(bars.edges[1:]),
                bucket_counts=list(bars.counts),
                global_step=epoch,
            )
        for name, number in (*numbers.items(), (MARK, epoch)):
            self._writer.add_scalar(name, number, epoch, double_precision=True)
        self._writer.flush()

    def finish(self, epochs: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """On disk when this returns."""
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, epochs, double_precision=True)
        for name, text in texts.items():
            self._write(name, text)

    def page(self, path: Path) -> None:
        """Its path, since TensorBoard shows no pages."""
        self._write("report", str(path))

    def close(self, failed: bool) -> None:
        """Close the file."""
        self._writer.close()

    def _write(self, name: str, text: str) -> None:
        """As it is: indented, so that nothing in it is taken for Markdown."""
        self._writer.add_text(name, "\n".join(f"    {line}" for line in text.splitlines()))
        self._writer.flush()

    @property
    def _folder(self) -> Path:
        return self.training.folder / "tensorboard"

    def _epochs_logged(self) -> int:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        if not any(self._folder.glob("events.*")):
            return 0
        events = EventAccumulator(str(self._folder), size_guidance={"scalars": 0, "histograms": 1, "tensors": 1})
        events.Reload()
        marks = events.Scalars(MARK) if MARK in events.Tags()["scalars"] else []
        return max((mark.step for mark in marks), default=0)
