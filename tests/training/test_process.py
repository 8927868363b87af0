"""The compiler that is missing, and memory that is kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdqat.training.process import keep_freed_memory

TRAIN = ["--train-images", "64", "--batch-size", "32", "--epochs", "1", "--threads", "1", "--compile"]


def train(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """With a C++ compiler that does not exist, and nothing compiled before."""
    nothing = {"CXX": str(folder / "no-compiler"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "pdqat.cli", "train", *TRAIN, *options, "--out", str(folder / "run")],
        env={**os.environ, **nothing},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_missing_compiler_is_named_in_one_sentence(tmp_path: Path) -> None:
    found = train(tmp_path)
    assert found.returncode == 2
    assert "Traceback" not in found.stderr
    assert "torch.compile does not work here" in found.stderr
    assert "--compile-fallback" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_on_request_the_run_goes_on_without_it_and_says_so(tmp_path: Path) -> None:
    found = train(tmp_path, "--compile-fallback")
    assert found.returncode == 0, found.stderr
    assert "Training without --compile" in " ".join(found.stdout.split())
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize(("takes", "expected"), [(2**40, [2**30]), (2**26, [2**30, 2**25])])
def test_large_blocks_are_kept_as_far_as_the_library_allows(
    monkeypatch: pytest.MonkeyPatch, takes: int, expected: list[int]
) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        @staticmethod
        def mallopt(option: int, value: int) -> int:
            asked.append((option, value))
            return int(value <= takes)

    monkeypatch.setattr("ctypes.CDLL", lambda _: Library)
    keep_freed_memory()
    assert [value for option, value in asked if option == -3] == expected
    assert (-1, 2**31 - 1) in asked


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    keep_freed_memory()
