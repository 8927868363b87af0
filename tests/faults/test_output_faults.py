"""A file that a command writes is the old one or the new one, whole; done again, it is the new one."""

import dataclasses
import random
import shutil
from pathlib import Path

import pytest

from faults.forking import Ended, Forks
from faults.outcomes import Span, assert_in_order, faults
from faults.small_training import OWN_CODE
from pdqat.runs.folder import Run

OLD = b"what was there before"
WRITING = {"plan": ("plan.toml", ["--budget", "4 bits"]), "export": ("model.onnx", [])}
"""Commands with the file that they write and what else they need."""

Well = tuple[Ended, bytes, Span]
"""How a command ends that nothing disturbs, what it writes, and what it does meanwhile."""


def _line(name: str, run: Run, folder: Path) -> list[str]:
    file, further = WRITING[name]
    return [name, str(run.path), *OWN_CODE, *further, "--out", str(folder / file)]


@pytest.fixture
def run(trained: tuple[Run, Span], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A copy of its own, in which exports are noted and measurements kept."""
    return Run(shutil.copytree(trained[0].path, tmp_path_factory.mktemp("exported") / "run"))


@pytest.fixture(scope="session")
def undisturbed(forks: Forks, trained: tuple[Run, Span], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Well]:
    made = {}
    for name, (file, _) in WRITING.items():
        run = Run(shutil.copytree(trained[0].path, tmp_path_factory.mktemp("undisturbed") / "run"))
        folder = tmp_path_factory.mktemp("undisturbed")
        ended = forks.run(_line(name, run, folder), folder)
        assert (ended.code, ended.errors) == (0, "")
        said = dataclasses.replace(ended, output=ended.output.replace(str(folder), "FOLDER"))
        made[name] = said, (folder / file).read_bytes(), Span.of(ended, folder)
    return made


@faults(fast=6, slow=60)
def test_a_fault_leaves_the_old_file_or_the_new_one(
    choice: random.Random, forks: Forks, run: Run, undisturbed: dict[str, Well], tmp_path: Path
) -> None:
    name = choice.choice(list(WRITING))
    well, new, span = undisturbed[name]
    command, file = _line(name, run, tmp_path), tmp_path / WRITING[name][0]
    file.write_bytes(OLD)
    fault = span.drawn(choice)
    ended = forks.run(command, tmp_path, fault)
    print(name, fault, ended.code)
    assert_in_order(ended)
    assert file.read_bytes() in ([new] if ended.code == 0 else [OLD, new])
    assert ended.code != 0 or ended.output.replace(str(tmp_path), "FOLDER") == well.output
    again = forks.run(command, tmp_path)
    assert (again.code, again.errors) == (0, "")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {file.name: new}
