"""examples/ of other libraries' loops run as they stand, on these libraries."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

pytestmark = pytest.mark.slow


def printed_by(name: str, *arguments: str, cwd: Path) -> str:
    """As a person runs it, in a folder of its own."""
    source = os.pathsep.join([str(EXAMPLES.parent / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@needs("lightning")
def test_a_lightning_module(tmp_path: Path) -> None:
    printed = printed_by("lightning_model.py", cwd=tmp_path)
    for words in (
        "accuracy/full",
        "accuracy/4-bit",
        "slack/4-bit/output",
        "multiplier/4-bit/layer/3",
        "layers by dual",
    ):
        assert words in printed


@needs("accelerate")
def test_the_trainer_of_hugging_face(tmp_path: Path) -> None:
    printed = printed_by("hugging_face_trainer.py", cwd=tmp_path)
    for words in ("eval_accuracy/full", "eval_accuracy/4-bit", "multiplier/4-bit/output", "layers by dual"):
        assert words in printed


@needs("optuna")
def test_optuna_over_tolerances(tmp_path: Path) -> None:
    printed = printed_by("tune_tolerances.py", "3", cwd=tmp_path)
    assert "best: " in printed
    assert "'output': " in printed
    assert "'layers': " in printed
