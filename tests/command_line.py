"""The command as a person runs it, and what it made."""

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pdqat.cli import main
from pdqat.runs.folder import Run

TINY = ["--train-images", "64", "--batch-size", "32"]


def pdqat(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does, in a folder."""
    command = [sys.executable, "-m", "pdqat", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclasses.dataclass
class Finished:
    """A run that the command made, and what it printed."""

    run: Run
    output: str


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line that the command says instead of doing anything."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("pdqat: ")
    assert printed.err.count("\n") == 1
    return printed.err


def assert_refused_without_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], complaint: str
) -> None:
    """Training refuses these options in a sentence with the complaint in it, and makes no folder."""
    assert complaint in refusal(capsys, "train", *arguments, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
