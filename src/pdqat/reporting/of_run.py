"""From a run folder to what a report is about: the trained model and its data, or the files alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdqat.config.loaders import Loaders
from pdqat.config.new_run import Ready
from pdqat.config.presets import config_of
from pdqat.config.train_config import TrainConfig
from pdqat.config.trained import Trained
from pdqat.data import Dataset
from pdqat.disk import read_file
from pdqat.errors import InputError
from pdqat.evidence import Entry
from pdqat.reporting.about import about_training
from pdqat.reporting.frontier import KEYS
from pdqat.reporting.provenance import checksum_of
from pdqat.reporting.subject import Provenance, Sampled, Subject
from pdqat.runs.exports_file import read_exports
from pdqat.runs.folder import Run
from pdqat.runs.forms import PointForm, read_json
from pdqat.task import Problem
from pdqat.training.history import History

FRONTIER = "frontier.json"


def of_folder(path: Path, model: str | None = None, data: str | None = None) -> Subject:
    """A finished run; of one whose model or data can't be opened, what its files say."""
    run = Run.open(path)
    summary, epochs = run.summary(), run.metrics()
    if not run.config_file.is_file():
        reason = "its model is of own code: pdqat.report(problem, loader) reports on all of it"
        return _of_files(run, summary, epochs, None, reason)
    config = config_of(run)
    try:
        trained = Trained.open(path, model, data, device="cpu")
    except InputError as error:
        return _of_files(run, summary, epochs, config, str(error))
    return _of_model(run, summary, epochs, config, trained.loaders, trained.problem, thorough=True)


def of_folders(paths: Sequence[Path], model: str | None = None, data: str | None = None) -> list[Subject]:
    """Several runs; those whose folders have the same name are called by their paths."""
    subjects = [of_folder(path, model, data) for path in paths]
    names = [subject.name for subject in subjects]
    return [
        replace(subject, name=str(path)) if names.count(subject.name) > 1 else subject
        for subject, path in zip(subjects, paths, strict=True)
    ]


def of_training(ready: Ready, history: History) -> Subject:
    """A training that has just ended."""
    run = ready.run
    return _of_model(run, history.summary, history.epochs, ready.config, ready.loaders, history.problem, thorough=False)


def _of_model(
    run: Run,
    summary: Mapping[str, Any],
    epochs: Sequence[Entry],
    config: TrainConfig,
    loaders: Loaders,
    problem: Problem,
    thorough: bool,
) -> Subject:
    dataset = loaders.dataset
    known = _provenance(run)
    if dataset is not None:
        tensors = (dataset.images, dataset.labels, dataset.test_images, dataset.test_labels)
        what = "all images and labels, for training and for testing"
        known = Provenance(known.commands, known.configuration, checksum_of(tensors), what)
    return Subject(
        run.path.absolute().name,
        summary,
        epochs,
        known_problem=problem,
        validation=Sampled.of(loaders.validation),
        training=Sampled.of(loaders.plain_training),
        classes=() if dataset is None else dataset.classes,
        to_picture=None if dataset is None else _unscaled(dataset),
        about={**_about(summary, config), **_about_data(dataset)},
        exports=read_exports(run),
        frontier=_frontier(run),
        provenance=known,
        thorough=thorough,
    )


def _of_files(
    run: Run, summary: Mapping[str, Any], epochs: Sequence[Entry], config: TrainConfig | None, reason: str
) -> Subject:
    return Subject(
        run.path.absolute().name,
        summary,
        epochs,
        no_problem_because=reason,
        about=_about(summary, config),
        exports=read_exports(run),
        frontier=_frontier(run),
        provenance=_provenance(run),
    )


def _about(summary: Mapping[str, Any], config: TrainConfig | None) -> dict[str, str]:
    if config is None:
        return about_training(summary)
    named = {"model": f"{config.model}, width {config.width}", "data": config.data, "quantiser": config.quantizer}
    return {**named, **about_training(summary)}


def _about_data(dataset: Dataset | None) -> dict[str, str]:
    if dataset is None:
        return {}
    shape = " x ".join(map(str, dataset.images.shape[1:]))
    return {"images": f"{len(dataset.images):,} to train on, {len(dataset.test_images):,} to test, {shape}"}


def _unscaled(dataset: Dataset) -> Callable[[Tensor], Tensor]:
    """From what the model reads back to the bytes of the image."""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (dataset.mean, dataset.std))
    return lambda image: ((image * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)


def _provenance(run: Run) -> Provenance:
    file = run.config_file if run.config_file.is_file() else run.problem_file
    return Provenance(run.commands(), file.read_text(encoding="utf-8", errors="replace"))


def _frontier(run: Run) -> list[dict[str, Any]] | None:
    file = run.path / FRONTIER
    if not file.is_file():
        return None
    points: list[dict[str, Any]] = read_json(read_file(file), list[PointForm], file)
    if not points or any(set(point) <= set(KEYS) for point in points):
        raise InputError(f"{file} is damaged: it holds no frontier of plans with their scores")
    return points
