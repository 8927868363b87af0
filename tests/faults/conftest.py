"""What the faults hit: a server that forks commands, and the run that nothing disturbed."""

import os
import random
import secrets
import signal
from collections.abc import Iterator

import pytest

from faults.forking import Forks
from faults.injecting import Fault
from faults.outcomes import Span
from faults.small_training import EPOCHS, TRAIN
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run

FAST_SEED = 24


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """So many of each: fast tests have faults that stay the same, slow ones draw others each time."""
    if "choice" not in metafunc.fixturenames:
        return
    fast, slow = metafunc.function.faults
    seed = int(os.environ.get("PDQAT_FAULTS_SEED", FAST_SEED))
    drawn = os.environ.get("PDQAT_FAULTS_SEED", "new")
    quick = [pytest.param(f"{seed}-{index}", id=f"{index}") for index in range(fast)]
    others = [pytest.param(f"{drawn}-{index}", id=f"more-{index}", marks=pytest.mark.slow) for index in range(slow)]
    metafunc.parametrize("choice", [*quick, *others], indirect=True)


@pytest.fixture
def choice(request: pytest.FixtureRequest) -> random.Random:
    """What draws the fault. The seed is printed, which pytest shows of a test that fails."""
    seed, index = request.param.split("-")
    seed = str(secrets.randbelow(10**6)) if seed == "new" else seed
    print(f"to see this again: PDQAT_FAULTS_SEED={seed}, fault {index}")
    return random.Random(f"{request.node.originalname}-{seed}-{index}")


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


@pytest.fixture(scope="session")
def trained(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Span]:
    """The undisturbed run, and what its training did."""
    folder = tmp_path_factory.mktemp("undisturbed")
    ended = forks.run([*TRAIN, "--out", str(folder / "run")], folder)
    assert (ended.code, ended.errors) == (0, "")
    return Run.open(folder / "run"), Span.of(ended, folder / "run")


@pytest.fixture(scope="session")
def stopped(forks: Forks, trained: tuple[Run, Span], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same run, killed when one or two of its epochs were done."""
    folder, moment = tmp_path_factory.mktemp("stopped"), trained[1].moments * 2 // 3
    ended = forks.run([*TRAIN, "--out", str(folder / "run")], folder, Fault("signal", signal.SIGKILL, moment))
    run = Run.open(folder / "run")
    assert ended.code == -signal.SIGKILL
    assert 0 < load_checkpoint(run.last)["epoch"] < EPOCHS
    return run
