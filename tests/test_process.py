"""What a process says about its machine, the compiler that is missing, and memory that is kept."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from pdqat.process import keep_freed_memory, processor

TRAIN = ["--train-images", "64", "--batch-size", "32", "--epochs", "1", "--threads", "1", "--compile"]

# One process for both, since torch takes ten seconds to find out that there is no compiler.
BOTH = """
import contextlib, io, json, sys
from pdqat.cli import main
done = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()) as complaint:
        code = main(arguments)
    done.append([code, output.getvalue(), complaint.getvalue()])
print(json.dumps(done))
"""


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    folder: Path
    code: int
    output: str
    complaint: str


@pytest.fixture(scope="module")
def without_a_compiler(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Done]:
    """Compiled training where no C++ compiler exists and nothing was compiled before; then with --compile-fallback."""
    place = tmp_path_factory.mktemp("no-compiler")
    folders = [place / "plain", place / "fallback"]
    commands = [
        ["train", *TRAIN, *options, "--out", str(folder)]
        for folder, options in zip(folders, ([], ["--compile-fallback"]), strict=True)
    ]
    nothing = {"CXX": str(place / "no-compiler"), "TORCHINDUCTOR_CACHE_DIR": str(place / "cache")}
    process = subprocess.run(
        [sys.executable, "-c", BOTH, json.dumps(commands)],
        env={**os.environ, **nothing},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    plain, fallback = (Done(folder, *it) for folder, it in zip(folders, json.loads(process.stdout), strict=True))
    return plain, fallback


def test_a_missing_compiler_is_named_in_one_sentence(without_a_compiler: tuple[Done, Done]) -> None:
    done, _ = without_a_compiler
    assert done.code == 2
    assert "Traceback" not in done.complaint
    assert "torch.compile does not work here" in done.complaint
    assert "--compile-fallback" in done.complaint
    assert len(done.complaint.strip().splitlines()) == 1
    assert not done.folder.exists()


def test_on_request_the_run_goes_on_without_it_and_says_so(without_a_compiler: tuple[Done, Done]) -> None:
    _, done = without_a_compiler
    assert done.code == 0, done.complaint
    assert "Training without --compile" in " ".join(done.output.split())
    assert json.loads((done.folder / "summary.json").read_text())["compiled"] is False


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


def test_the_processor_is_named_with_the_vector_instructions_that_torch_uses() -> None:
    name, _, instructions = processor().rpartition(", ")
    assert name
    assert instructions == torch.backends.cpu.get_cpu_capability()


CORES = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC

processor\t: 1
cpu family\t: 6
model\t\t: 143
model name\t: another
"""


def test_generations_of_one_name_are_told_apart_by_the_first_cores_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: CORES)
    assert processor() == f"AMD EPYC (family 26, model 2), {torch.backends.cpu.get_cpu_capability()}"


def test_where_the_system_does_not_name_the_processor_its_kind_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert processor() == f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
