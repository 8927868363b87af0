"""Files damaged at random: each is read, or refused in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from damaged import FEW, MANY
from fuzz.readers import NAMES, reader


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    reader(name, tmp_path).refuses_or_reads(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_damaged_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    """By atheris, which looks for inputs that reach new lines of ours; where it is not to be had, by Hypothesis."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        reader(name, tmp_path).refuses_or_reads(MANY)
        return
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "fuzz.guided", name, str(MANY), str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{MANY} inputs" in ended.stdout
