"""What is on disk: the run folder with its checkpoints, metrics, summary and plans."""

from pdqat.runs.folder import Run

__all__ = ["Run"]
