"""Of a run whose files were damaged or lost, a command says so or does what it would have done; nothing in between."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from faults.forking import Forks
from faults.outcomes import SENTENCE, Span, assert_in_order, faults
from faults.small_training import OWN_CODE
from pdqat.runs.folder import Run
from same_run import assert_same_run

FILES = ("best.pt", "last.pt", "config.toml", "metrics.jsonl", "summary.json", "seal.json")
READING: dict[str, list[str]] = {
    "show": [],
    "eval": OWN_CODE,
    "eval --checkpoint last": OWN_CODE,
    "sensitivity": OWN_CODE,
    "plan --budget 4bits --out /dev/stdout": OWN_CODE,
}
"""Commands that read a run, with what they need behind its name."""


def _flipped(content: bytes, choice: random.Random) -> bytes:
    at = choice.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << choice.randrange(8)]) + content[at + 1 :]


def _cleared(content: bytes, choice: random.Random) -> bytes:
    at, length = choice.randrange(len(content)), choice.randint(1, 64)
    return content[:at] + bytes(len(content[at : at + length])) + content[at + length :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped": _flipped,
    "cleared": _cleared,
    "cut short": lambda content, choice: content[: choice.randrange(len(content))],
    "longer": lambda content, choice: content + choice.randbytes(choice.randint(1, 64)),
    "other": lambda content, choice: choice.randbytes(len(content)),
}


def _damage(run: Run, choice: random.Random) -> None:
    file = run.path / choice.choice([name for name in FILES if (run.path / name).exists()])
    kind = choice.choice([*DAMAGES, "lost", "a folder"])
    print(file.name, kind)
    content = file.read_bytes()
    file.unlink()
    if kind == "a folder":
        file.mkdir()
    elif kind != "lost":
        file.write_bytes(DAMAGES[kind](content, choice))


@faults(fast=4, slow=60)
def test_reading_a_damaged_run(choice: random.Random, forks: Forks, trained: tuple[Run, Span], tmp_path: Path) -> None:
    run = Run(shutil.copytree(trained[0].path, tmp_path / "run"))
    name = choice.choice(list(READING))
    words = name.split()
    command = [words[0], str(run.path), *words[1:], *READING[name]]
    well = [forks.run(command, tmp_path) for _ in range(2)]  # what the first keeps, the second need not measure
    assert {(ended.code, ended.errors) for ended in well} == {(0, "")}
    _damage(run, choice)
    ended = forks.run(command, tmp_path)
    print(name, ended.code)
    assert_in_order(ended)
    assert ended.code == SENTENCE or (ended.code == 0 and ended.output in [undisturbed.output for undisturbed in well])


@faults(fast=2, slow=40)
def test_continuing_a_damaged_run(
    choice: random.Random, forks: Forks, trained: tuple[Run, Span], stopped: Run, tmp_path: Path
) -> None:
    run = Run(shutil.copytree(stopped.path, tmp_path / "run"))
    _damage(run, choice)
    ended = forks.run(["train", *OWN_CODE, "--resume", str(run.path)], tmp_path)
    print(ended.code)
    assert_in_order(ended)
    assert ended.code in (0, SENTENCE)
    if ended.code == 0:
        assert_same_run(trained[0], run)
