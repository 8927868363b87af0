"""Runs that the command line made."""

import shutil
from pathlib import Path

import pytest

from command_line import TINY, Finished, pdqat
from pdqat.runs.folder import Run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("cli") / "finished"
    done = pdqat("train", "--epochs", "2", "--bits", "2", "w4a8", *TINY, "--out", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return Finished(Run.open(folder), done.stdout)


@pytest.fixture
def run(finished: Finished, tmp_path: Path) -> Run:
    """A copy of a finished run, to do what one likes with."""
    return Run.open(shutil.copytree(finished.run.path, tmp_path / "run"))


@pytest.fixture
def unfinished(run: Run) -> Run:
    run.summary_file.unlink()
    return run
