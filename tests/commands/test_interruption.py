"""A training that is asked to stop ends in order, and says how to continue."""

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdqat.cli import main
from pdqat.runs.folder import Run

STOPPED = """
import signal
from pathlib import Path
import torch
from torch import nn

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


@pytest.fixture(autouse=True)
def _interrupts_are_heeded() -> Iterator[None]:
    """Also where the tests run in the background, which ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_last_line_is_the_command_that_continues(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = f"stopped_by_{number.name.lower()}"
    Path(f"{module}.py").write_text(STOPPED)
    Path("signal").write_text(str(int(number)))
    before = signal.getsignal(signal.SIGTERM)
    own = ["--model", f"{module}:build", "--data", f"{module}:load"]
    assert main(["train", *own, "--epochs", "3", "--out", "my run"]) == code
    assert signal.getsignal(signal.SIGTERM) is before
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "pdqat: interrupted; what was finished is kept; continue with",
        f"pdqat train --resume 'my run' {' '.join(own)}",
    ]
    assert not Run.open(Path("my run")).summary_file.exists()
    assert main(shlex.split(said[-1])[1:]) == 0
    assert Run.open(Path("my run")).summary()["epochs"] == 3
