"""A training that is asked to stop ends in order, and says how to continue."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import pdqat
from pdqat.runs.folder import Run

STOPPED = """
import signal
from pathlib import Path
import torch
from torch import nn

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it

class Batches:
    def __iter__(self):
        for _ in range(2):
            if Path("signal").exists() and Path("my run/last.pt").exists():
                number = int(Path("signal").read_text())
                Path("signal").unlink()
                signal.raise_signal(number)
            yield torch.ones(8, 4), torch.arange(8) % 2

def load():
    return Batches(), Batches()

def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
"""


@pytest.mark.parametrize(
    ("number", "code", "ended_by"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_the_last_line_is_the_command_that_continues(
    tmp_path: Path, number: signal.Signals, code: int, ended_by: str
) -> None:
    """In a process of its own, as a person has it: an interrupt that went astray would end the tests."""
    (tmp_path / "stopped.py").write_text(STOPPED)
    (tmp_path / "signal").write_text(str(int(number)))
    own = ["--model", "stopped:build", "--data", "stopped:load"]
    ended = pdqat("train", *own, "--schedule", "steps", "--epochs", "3", "--out", "my run", cwd=tmp_path)
    assert ended.returncode == code
    assert ended.stderr.splitlines() == [
        f"pdqat: {ended_by}; what was finished is kept; continue with",
        f"pdqat train --resume 'my run' {' '.join(own)}",
    ]
    assert not Run.open(tmp_path / "my run").summary_file.exists()
    continued = pdqat(*shlex.split(ended.stderr.splitlines()[-1])[1:], cwd=tmp_path)
    assert continued.returncode == 0, continued.stderr
    assert Run.open(tmp_path / "my run").summary()["epochs"] == 3


IMPORTING = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
from pdqat import cli

def imported(_):
    for _ in range(int(sys.argv[2])):
        signal.raise_signal(int(sys.argv[1]))
    print("imported")
    return lambda options: print("went on")

cli.pkgutil.resolve_name = imported
sys.exit(cli.main(["show", "run"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(("times", "said"), [(1, "imported\n"), (2, "")])
def test_an_interrupt_waits_for_an_import_but_the_second_does_not(
    number: signal.Signals, code: int, times: int, said: str
) -> None:
    """Inside a compiled module an exception may be swallowed, or abort the process."""
    command = [sys.executable, "-c", IMPORTING, str(int(number)), str(times)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (code, said)
    assert ended.stderr.endswith("; what was finished is kept\n")
