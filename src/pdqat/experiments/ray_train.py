"""One run that several workers of a Ray cluster train: Ray Train starts them, as one group of torch's processes.

The run folder, which all machines see, is made before. A worker does what a process of torchrun does: it continues the
run in that folder with its share of every batch. So workers that are started again, because one has died, go on from
the last epoch that was finished.
"""

import importlib
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pdqat.config.new_run import Ready, stopped_run
from pdqat.config.train_config import TrainConfig
from pdqat.config.training import trainer_of
from pdqat.distributed import from_first, noticing_losses
from pdqat.errors import InputError, LostProcessError
from pdqat.experiments.ray_cluster import connected
from pdqat.printing import complain
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from pdqat.training.callbacks import Callback
from pdqat.training.history import History
from pdqat.training.state import with_state

RESTARTS = 3
"""How often workers are started again after one of them died."""
POLL_SECONDS = 0.5


def train_on_ray(ready: Ready, workers: int, own_code: Mapping[str, str], progress: Callback) -> History:
    """Train the run to its end; raises LostProcessError where workers die again and again.

    Args:
        ready: the run, whose folder every machine of the cluster sees.
        workers: how many processes share every batch.
        own_code: the functions of own code by their option, `model` or `data`, as the command line names them.
        progress: is told of every epoch.
    """
    ray = connected()
    storage = ready.run.path.absolute() / ".ray"  # of Ray's own notes; it has to be seen by all machines too
    try:
        needed = _resources(ray, ready.config, workers)
        told = {"run": str(ready.run.path.absolute()), "here": str(Path.cwd()), **own_code}
        shown = _Epochs(ready.run, ready.config.epochs, progress)
        _train(lambda: _ray_trainer(told, needed, storage).fit(), shown)
    finally:
        ray.shutdown()  # ends the workers too, of a training that was interrupted
        shutil.rmtree(storage, ignore_errors=True)
    run = ready.run
    problem = with_state(ready.problem, load_checkpoint(run.best), f"the checkpoint {run.best}").eval()
    return History(problem, run.metrics(), run.summary())


def _resources(ray: Any, config: TrainConfig, workers: int) -> dict[str, Any]:
    """What Ray is asked for; raises InputError if the cluster has not so much, for which Ray would wait."""
    each = {"CPU": config.threads or 1, "GPU": int(config.device.startswith("cuda"))}
    for kind, number in each.items():
        there = int(ray.cluster_resources().get(kind, 0))
        if there < workers * number:
            raise InputError(f"{workers} workers need {workers * number} {kind}s, and the Ray cluster has {there}")
    return {"num_workers": workers, "use_gpu": each["GPU"] > 0, "resources_per_worker": each}


def _ray_trainer(told: Mapping[str, str], needed: Mapping[str, Any], storage: Path) -> Any:
    try:
        train: Any = importlib.import_module("ray.train")
        torch_part: Any = importlib.import_module("ray.train.torch")
    except ImportError:
        raise InputError("--executor ray needs Ray Train: pip install 'pdqat[ray]'") from None
    return torch_part.TorchTrainer(
        _train_a_share,
        train_loop_config=dict(told),
        scaling_config=train.ScalingConfig(**needed),
        run_config=train.RunConfig(name="training", storage_path=str(storage)),
    )


class _Epochs:
    """Tells of epochs as their entries appear in the run's metrics."""

    def __init__(self, run: Run, epochs: int, progress: Callback) -> None:
        self._run, self._progress = run, progress
        self._told = len(run.metrics())
        progress.start(epochs, 1, self._told)

    def tell(self) -> None:
        for entry in self._run.metrics()[self._told :]:
            self._told += 1
            self._progress.step(self._told, 1, entry["objective"])
            self._progress.epoch(entry)


def _train(fit: Callable[[], object], shown: _Epochs) -> None:
    """Until the workers are done; they are started again if one has died."""
    for start in range(1 + RESTARTS):
        try:
            _wait(fit, shown)
            break
        except LostProcessError as error:
            if start == RESTARTS:
                raise
            complain(f"{error}; the workers are started again")


def _wait(fit: Callable[[], object], shown: _Epochs) -> None:
    """Until the workers are done, in a thread of its own: Ray would take Ctrl-C for a training that ended well."""
    pool = ThreadPoolExecutor(1)
    training = pool.submit(fit)
    try:
        while not training.done():
            wait([training], POLL_SECONDS)
            shown.tell()
    finally:
        pool.shutdown(wait=False)
    error = training.exception()
    if error is not None:
        raise _cause(error) from error


def _cause(error: BaseException) -> BaseException:
    """What a worker has raised, unless that is only that another one is gone; or that workers are gone."""
    failures: Mapping[int, BaseException] = getattr(error, "worker_failures", {})
    for failure in failures.values():
        if not isinstance(failure, LostProcessError) and type(failure).__module__.partition(".")[0] != "ray":
            return failure
    return LostProcessError("a worker of this training is gone or does not answer")


def _train_a_share(told: dict[str, str]) -> None:
    """What every worker does."""
    os.chdir(told["here"])  # where own code is
    with noticing_losses(), ExitStack() as stack:
        ready = stopped_run(Path(told["run"]), told.get("model"), told.get("data"))
        from_first(lambda: stack.enter_context(ready.run.locked()))
        trainer_of(ready.run, ready.config, ready.loaders, ready.problem).train()
