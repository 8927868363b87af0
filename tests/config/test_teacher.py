"""A teacher by name: a run's folder, or a file of the model's weights."""

import dataclasses
from pathlib import Path

import pytest
import torch

from configured import build, small, train
from pdqat.config.problem import model_of
from pdqat.config.trained import Trained
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run


def taught(path: Path) -> Lagrangian:
    problem = build(small(gradient="straight-through", teacher=str(path))).problem
    assert isinstance(problem, Lagrangian)
    return problem


def test_a_run_teaches_by_its_full_precision_view_in_its_own_width(tmp_path: Path) -> None:
    wide = small(method="full", width=2, epochs=1)
    run = train(tmp_path / "wide", wide)
    problem = taught(tmp_path / "wide")
    built = build(wide)
    built.problem.net.load_state_dict(load_checkpoint(run.best)["model"])
    images = built.loaders.example
    assert problem.teacher is not None
    with torch.no_grad():
        assert torch.equal(problem.teacher(images), built.problem.net.eval()(images))
    assert sum(it.numel() for it in problem.teacher.parameters()) > sum(it.numel() for it in problem.net.parameters())


def test_a_file_of_weights_is_of_this_model(tmp_path: Path) -> None:
    config = small(gradient="straight-through")
    loaders = build(config).loaders
    plain = model_of(dataclasses.replace(config, seed=5), loaders)
    torch.save(plain.state_dict(), tmp_path / "weights.pt")
    teacher = taught(tmp_path / "weights.pt").teacher
    assert teacher is not None
    with torch.no_grad():
        assert torch.equal(teacher(loaders.example), plain.eval()(loaders.example))
    wide = model_of(dataclasses.replace(config, width=2), loaders)
    torch.save(wide.state_dict(), tmp_path / "wide.pt")
    with pytest.raises(InputError, match=r"the teacher's weights in .*wide\.pt do not fit the model"):
        taught(tmp_path / "wide.pt")
    with pytest.raises(InputError, match=r"there is no teacher .*nothing.pt, neither a run's folder nor a file"):
        taught(tmp_path / "nothing.pt")


def test_what_would_be_another_network_is_refused(tmp_path: Path) -> None:
    run = train(tmp_path / "run", small(method="full", epochs=1))
    with pytest.raises(InputError, match=r"best.pt is the checkpoint of a run, .*: give the run's folder"):
        taught(run.best)
    run.write_options({**run.options(), "data": "cifar10"})
    with pytest.raises(InputError, match=r"was trained on cifar10 \(image_size 32\), and this run is on digits"):
        taught(run.path)


def test_a_run_is_opened_with_its_teacher(tmp_path: Path) -> None:
    """Which may be named from the run's own folder."""
    train(tmp_path / "teacher", small(method="full", epochs=1))
    train(tmp_path / "run", small(gradient="straight-through", epochs=1, teacher=str(tmp_path / "teacher")))
    run = Run.open(tmp_path / "run")
    run.write_options({**run.options(), "teacher": "../teacher"})
    problem = Trained.open(tmp_path / "run").problem
    assert isinstance(problem, Lagrangian)
    assert problem.teacher is not None
    (tmp_path / "teacher").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="there is no teacher"):
        Trained.open(tmp_path / "run")
