"""`pdqat.report`: the page of a problem of one's own."""

from collections.abc import Sequence
from pathlib import Path

from pdqat.batches import Batches, check_repeatable
from pdqat.deployment.report import ExportReport
from pdqat.disk import as_path, check_target, write_atomically
from pdqat.errors import InputError
from pdqat.metric import MetricLike
from pdqat.reporting.about import about_training
from pdqat.reporting.gather import Tell, document
from pdqat.reporting.page import render
from pdqat.reporting.subject import Sampled, Subject
from pdqat.runs.exports_file import export_entry
from pdqat.runs.folder import check_no_file_of_a_run
from pdqat.task import Problem, check_problem
from pdqat.training.history import History
from pdqat.training.summary import summarize


def say_nothing(_: str) -> None:
    """Where nobody waits."""


def report(
    problem: Problem,
    batches: Batches,
    path: str | Path = "report.html",
    *,
    training: Batches | None = None,
    history: History | None = None,
    metric: MetricLike | None = None,
    classes: Sequence[str] = (),
    exports: Sequence[ExportReport] = (),
    name: str = "model",
    thorough: bool = True,
    tell: Tell = say_nothing,
) -> Path:
    """Write a report as one HTML file, which opens from disk and needs no network.

    Args:
        problem: a trained Lagrangian or TaskProblem.
        batches: held-out samples, any iterable of (inputs, target); scores are of all of them, everything else of the
            first 1,000.
        path: of the file.
        training: training samples: signal-to-noise is compared on them, and the norms of other plans need them.
        history: what `fit` returned, for all that is shown over epochs.
        metric: by which views are judged, as `evaluate` takes it.
        classes: their names.
        exports: what `export` returned, for the verification of files.
        name: of the model, for the title.
        thorough: also what takes longer than a pass over the samples: rival rankings and the frontier of plans.
        tell: called with what is being done.

    Returns:
        The path of the file.

    Examples:
        >>> import pdqat, tempfile, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pdqat.report(problem, [(x, y)], f"{folder}/report.html", thorough=False)
        ...     file.read_text().startswith("<!doctype html>")
        True
    """
    check_problem(problem)
    file = as_path(path, "the report")
    check_place(file)
    if history is not None and not isinstance(history, History):
        raise InputError(f"history is what pdqat.fit returned, not a {type(history).__name__}")
    check_repeatable(batches, "batches")
    validation = Sampled.of(batches)
    if not len(validation):
        raise InputError("there is no sample to report on: the batches are empty")
    summary = summarize(problem, metric, batches, None, {}) if history is None else history.summary
    subject = Subject(
        name,
        summary,
        epochs=() if history is None else history.epochs,
        known_problem=problem,
        validation=validation,
        training=Sampled() if training is None else Sampled.of(training),
        classes=tuple(classes),
        metric=metric,
        about={"model": type(problem.net.model).__name__, **about_training(summary)},
        exports={export.path.name: export_entry(export.path, export) for export in exports},
        thorough=thorough,
    )
    write_page(file, [subject], tell)
    return file


def check_place(path: Path) -> None:
    """Refuse a file that can't be written, or that a run needs, before anything is gathered for it."""
    check_no_file_of_a_run(path)
    check_target(path)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} into")


def write_page(path: Path, subjects: Sequence[Subject], tell: Tell) -> None:
    """Gather all, and write the file at once."""
    write_atomically(path, render(document(subjects, tell)).encode())
