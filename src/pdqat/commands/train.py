"""`pdqat train`."""

import argparse
import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pdqat.commands.report import report_training
from pdqat.commands.show import show_summary
from pdqat.config.new_run import Given, Ready, new_run, shared_run, stopped_run
from pdqat.config.own_code import is_own
from pdqat.config.train_config import Method
from pdqat.config.training import trainer_of
from pdqat.distributed import from_first, is_first, joined, noticing_losses, processes
from pdqat.errors import InputError, LostProcessError
from pdqat.experiments.ray_cluster import connected
from pdqat.experiments.ray_train import train_on_ray
from pdqat.flags.config_flags import given_flags
from pdqat.process import keep_freed_memory
from pdqat.terminal import PlainConsole
from pdqat.trackers.log import Log, log_to
from pdqat.training.history import History
from pdqat.training.progress import TrainingProgress

OWN_CODE = ("model", "data")


def run(options: argparse.Namespace) -> None:
    """Train into a run folder, and show how it ended."""
    continuing = None if options.resume is None else options.as_typed
    try:
        with ExitStack() as logging:
            with joined():
                _check_workers(options)
                ready = _ready(options, given_flags(options))
                continuing = _continuing(ready, options.workers)
                keep_freed_memory()
                is_writing = is_first()
                console = PlainConsole(quiet=not is_writing)
                logs = _logs(ready, console, logging) if is_writing else []
                with noticing_losses():
                    train = _trained if options.workers is None else _trained_by_workers
                    history = train(ready, options, console, logs)
            continuing = shlex.join(["pdqat", "show", str(ready.run.path)])
            show_summary(console, history.summary, str(ready.run.path))
            if is_writing and report_training(ready, history, console):
                for log in logs:
                    log.keep_page(ready.run.report_file)
    except (KeyboardInterrupt, LostProcessError) as stop:
        if continuing is not None:
            stop.add_note(continuing)
        raise


def _logs(ready: Ready, console: PlainConsole, stack: ExitStack) -> list[Log]:
    """To the trackers that are asked for, until the stack is left."""
    options = ready.config.as_options()
    logs = [stack.enter_context(log_to(name, ready.run.path, options)) for name in ready.config.log]
    for log in logs:
        console.print(f"log: {log.tracker.look()}", soft_wrap=True)
    return logs


def _check_workers(options: argparse.Namespace) -> None:
    if (options.executor == "ray") != (options.workers is not None):
        raise InputError("--executor ray and --workers N go together: N processes on a Ray cluster share every batch")
    if options.workers is not None and processes() > 1:
        raise InputError(f"--executor ray starts its own processes: give it to one, not to {processes()} of torchrun")
    if options.workers is not None:
        connected()  # before there is a folder


def _trained(ready: Ready, options: argparse.Namespace, console: PlainConsole, logs: Sequence[Log]) -> History:
    with ExitStack() as stack:
        from_first(lambda: stack.enter_context(ready.run.locked()))
        progress = TrainingProgress(console)
        if ready.run.starts_anew is not None:
            console.print(ready.run.starts_anew, soft_wrap=True)
        trainer = trainer_of(ready.run, ready.config, ready.loaders, ready.problem, [progress, *logs])
        if is_first():
            ready.run.note_command(options.as_typed)
        _say_left_alone(console, ready)
        if trainer.compile_problem is not None:
            console.print(f"Training without --compile: {trainer.compile_problem}")
        with progress:
            return trainer.train()


def _trained_by_workers(
    ready: Ready, options: argparse.Namespace, console: PlainConsole, logs: Sequence[Log]
) -> History:
    """Logs are written at the end, since the weights of an epoch are not here."""
    ready.run.note_command(options.as_typed)
    _say_left_alone(console, ready)
    for log in logs:
        log.start(ready.config.epochs, None, len(ready.run.metrics()))
    with TrainingProgress(console) as progress:
        history = train_on_ray(ready, options.workers, _own_code(ready), progress)
    for log in logs:
        log.state(history.problem, history.epochs)
        log.finish(history)
    return history


def _own_code(ready: Ready) -> dict[str, str]:
    """Its import paths by their option."""
    names = {name: str(getattr(ready.config, name)) for name in OWN_CODE}
    return {name: path for name, path in names.items() if is_own(path)}


def _continuing(ready: Ready, workers: int | None) -> str:
    """The command that continues the run; own code has to be named again."""
    own = [word for name, path in _own_code(ready).items() for word in (f"--{name}", path)]
    here = os.environ.get("LOCAL_WORLD_SIZE", "1")
    start = ["pdqat"] if processes() == 1 else ["torchrun", "--nproc-per-node", here, "-m", "pdqat"]
    where = [] if workers is None else ["--executor", "ray", "--workers", str(workers)]
    return shlex.join([*start, "train", "--resume", str(ready.run.path), *own, *where])


def _ready(options: argparse.Namespace, flags: dict[str, Any]) -> Ready:
    if options.resume is None:
        plan, source = options.plan_file, options.source
        given = Given(flags, options.config, options.preset, plan, source, options.out)
        return new_run(given) if processes() == 1 else shared_run(given)
    others = [name for name in flags if name not in OWN_CODE]
    if others or options.config or options.preset or options.out or options.plan_file or options.source:
        raise InputError("--resume takes everything from the run folder: give no other option with it")
    return stopped_run(options.resume, flags.get("model"), flags.get("data"))


def _say_left_alone(console: PlainConsole, ready: Ready) -> None:
    if ready.config.method is Method.FULL:
        return
    net = ready.problem.net
    low = [layer for layer in net.layers if any(layer in plan.low_layers for plan in net.plans.values())]
    dropped = [layer for layer in net.layers if all(plan[layer].is_dropped for plan in net.plans.values())]
    full = {layer: "full precision by the plan" for layer in net.layers if layer not in [*low, *dropped]}
    if dropped:
        console.print(f"dropped by the plan: {', '.join(dropped)}", soft_wrap=True)
    console.print(f"{len(low)} layers quantised; in full precision:")
    for name, reason in (full | net.left_alone).items():
        console.print(f"  {name}: {reason}", soft_wrap=True)
