"""Runs that the command line made."""

import contextlib
import io
import shutil
from pathlib import Path

import pytest

from command_line import TINY, Finished
from pdqat.cli import main
from pdqat.runs.folder import Run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("cli") / "finished"
    said, complaints = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaints):
        code = main(["train", "--epochs", "2", "--bits", "2", "w4a8", *TINY, "--out", str(folder)])
    assert (code, complaints.getvalue()) == (0, "")
    return Finished(Run.open(folder), said.getvalue())


@pytest.fixture
def run(finished: Finished, tmp_path: Path) -> Run:
    """A copy of a finished run, to do what one likes with."""
    return Run.open(shutil.copytree(finished.run.path, tmp_path / "run"))


@pytest.fixture
def unfinished(run: Run) -> Run:
    run.summary_file.unlink()
    return run
