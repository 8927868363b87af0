"""`pdqat.report`: the page of a problem of one's own."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pdqat.batches import Batches, check_repeatable, tensors_in
from pdqat.deployment.report import ExportReport
from pdqat.description import describe
from pdqat.disk import as_path, check_target, write_atomically
from pdqat.errors import InputError
from pdqat.metric import MetricLike
from pdqat.reporting.about import about_training
from pdqat.reporting.gather import Tell, document
from pdqat.reporting.page import render
from pdqat.reporting.subject import Provenance, Sampled, Subject
from pdqat.runs.exports_file import export_entry
from pdqat.runs.folder import check_no_file_of_a_run
from pdqat.task import Problem, check_numbers, check_problem
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
    check_numbers(problem, "the problem to report on")
    file = as_path(path, "the report")
    check_place(file)
    if history is not None and not isinstance(history, History):
        raise InputError(f"history is what pdqat.fit returned, not a {type(history).__name__}")
    check_repeatable(batches, "batches")
    validation = Sampled.of(batches)
    if not len(validation):
        raise InputError("there is no sample to report on: the batches are empty")
    summary = summarize(problem, metric, batches, None, {}) if history is None else history.summary
    configuration = describe(problem)
    subject = Subject(
        name,
        summary,
        epochs=() if history is None else history.epochs,
        known_problem=problem,
        validation=validation,
        training=Sampled() if training is None else Sampled.of(training),
        classes=tuple(classes),
        metric=metric,
        exports={export.path.name: export_entry(export.path, export) for export in exports},
        provenance=Provenance(_program(), json.dumps(configuration, indent=2)),
        thorough=thorough,
        is_own=True,
    )
    write_page(file, [replace(subject, about=_about(subject, configuration))], tell)
    return file


def _about(subject: Subject, configuration: Mapping[str, Any]) -> dict[str, str]:
    """What was trained and on what."""
    inputs, _ = subject.validation.batches[0]
    samples = f"{subject.validation.size} to validate on"
    if len(subject.training):
        samples = f"{subject.training.size} to train on, {samples}"
    shapes = (" x ".join(map(str, tensor.shape[1:])) or "1" for tensor in tensors_in(inputs) if tensor.dim())
    quantizer = configuration["quantizer"]
    return {
        "model": type(subject.problem.net.model).__name__,
        "samples": ", ".join([samples, *shapes]),
        "loss": configuration["loss"],
        "quantiser": quantizer if isinstance(quantizer, str) else " ".join(quantizer.values()),
        **about_training(subject.summary),
    }


def _program() -> list[str]:
    """The script that runs, as it was started; nothing of an interactive session."""
    return [shlex.join(["python", *sys.argv])] if hasattr(sys.modules["__main__"], "__file__") else []


def check_place(path: Path) -> None:
    """Refuse a file that can't be written, or that a run needs, before anything is gathered for it."""
    check_no_file_of_a_run(path)
    check_target(path)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} into")


def write_page(path: Path, subjects: Sequence[Subject], tell: Tell) -> None:
    """Gather all, and write the file at once."""
    write_atomically(path, render(document(subjects, tell)).encode())
