"""Where cells are trained: in processes of this machine, or on a Ray cluster whose machines share the folder."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pdqat.errors import InputError
from pdqat.experiments.ray_cluster import connected

LOG = "train.log"


class Job(Protocol):
    """A cell in training."""

    def ended(self) -> int | None:
        """The exit code, negative for a signal, or None while it trains."""

    def stop(self) -> None:
        """End it now; what it has finished is kept."""


class Executor(Protocol):
    """Starts cells."""

    jobs: int
    """How many it trains at once."""

    def start(self, folder: Path) -> Job:
        """Train the run in this folder."""


@dataclass(frozen=True)
class Resources:
    """What a cell is trained with."""

    threads: int
    device: str


class LocalJob:
    """A process of this machine."""

    def __init__(self, folder: Path, resources: Resources) -> None:
        arguments = [str(folder), str(resources.threads), resources.device, str(os.getpid())]
        command = [sys.executable, "-m", "pdqat.experiments.train_cell", *arguments]
        with (folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def ended(self) -> int | None:
        """The exit code, negative for a signal, or None while it trains."""
        return self._process.poll()

    def wait(self) -> int:
        """The exit code, when there is one."""
        return self._process.wait()

    def stop(self) -> None:
        """Ask the process to end, and wait until it is gone."""
        self._process.terminate()
        self._process.wait()


class LocalExecutor:
    """Trains every cell in a process of this machine, so many at once."""

    def __init__(self, jobs: int, resources: Resources) -> None:
        self.jobs = jobs
        self._resources = resources

    def start(self, folder: Path) -> Job:
        """Train the run in this folder."""
        return LocalJob(folder, self._resources)


class RayJob:
    """A task of a Ray cluster."""

    def __init__(self, ray: Any, task: Any) -> None:
        self._ray, self._task = ray, task

    def ended(self) -> int | None:
        """The exit code, or None while it trains."""
        done, _ = self._ray.wait([self._task], timeout=0)
        if not done:
            return None
        try:
            return int(self._ray.get(self._task))
        except self._ray.exceptions.RayError as error:
            said = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
            raise InputError(f"Ray could not train it: {said[-1].strip() if said else type(error).__name__}") from error

    def stop(self) -> None:
        """Ray ends the task's process, and the one that it has started notices."""
        self._ray.cancel(self._task, force=True)


class RayExecutor:
    """Trains every cell as a task of a Ray cluster, as many at once as it has processors or GPUs for."""

    def __init__(self, jobs: int | None, resources: Resources) -> None:
        ray = connected()
        self._ray = ray
        needed = {"num_cpus": resources.threads, "num_gpus": int(resources.device.startswith("cuda"))}
        self._train = ray.remote(max_retries=0, **needed)(_train_on_ray)
        self._resources = resources
        self.jobs = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)) // resources.threads)

    def start(self, folder: Path) -> Job:
        """Train the run in this folder, which every machine of the cluster has to see."""
        return RayJob(self._ray, self._train.remote(str(folder.absolute()), self._resources))


def _train_on_ray(folder: str, resources: Resources) -> int:
    return LocalJob(Path(folder), resources).wait()
