"""`pdqat train`."""

import argparse
import shlex
from typing import Any

from rich.console import Console

from pdqat.commands.show import show_summary
from pdqat.config.new_run import Given, Ready, new_run, stopped_run
from pdqat.config.own_code import is_own
from pdqat.config.train_config import Method
from pdqat.config.training import trainer_of
from pdqat.errors import InputError
from pdqat.flags.config_flags import given_flags
from pdqat.process import keep_freed_memory
from pdqat.training.progress import TrainingProgress

OWN_CODE = ("model", "data")


def run(options: argparse.Namespace) -> None:
    """Train into a run folder, and show how it ended."""
    ready = _ready(options, given_flags(options))
    keep_freed_memory()
    console = Console()
    try:
        summary = _trained(ready, console)
    except KeyboardInterrupt as stop:
        stop.add_note(_continuing(ready))
        raise
    show_summary(console, summary, str(ready.run.path))


def _trained(ready: Ready, console: Console) -> dict[str, Any]:
    with ready.run.locked():
        progress = TrainingProgress(console)
        trainer = trainer_of(ready.run, ready.config, ready.loaders, ready.problem, [progress])
        _say_left_alone(console, ready)
        if trainer.compile_problem is not None:
            console.print(f"Training without --compile: {trainer.compile_problem}", markup=False)
        with progress:
            return trainer.train().summary


def _continuing(ready: Ready) -> str:
    """The command that continues the run; own code has to be named again."""
    names = {name: getattr(ready.config, name) for name in OWN_CODE}
    own = [word for name, path in names.items() if is_own(path) for word in (f"--{name}", path)]
    return shlex.join(["pdqat", "train", "--resume", str(ready.run.path), *own])


def _ready(options: argparse.Namespace, flags: dict[str, Any]) -> Ready:
    if options.resume is None:
        plan, source = options.plan_file, options.source
        return new_run(Given(flags, options.config, options.preset, plan, source, options.out))
    others = [name for name in flags if name not in OWN_CODE]
    if others or options.config or options.preset or options.out or options.plan_file or options.source:
        raise InputError("--resume takes everything from the run folder: give no other option with it")
    return stopped_run(options.resume, flags.get("model"), flags.get("data"))


def _say_left_alone(console: Console, ready: Ready) -> None:
    if ready.config.method is Method.FULL:
        return
    net = ready.problem.net
    low = [layer for layer in net.layers if any(layer in plan.low_layers for plan in net.plans.values())]
    full = {layer: "full precision by the plan" for layer in net.layers if layer not in low}
    console.print(f"{len(low)} layers quantised; in full precision:", highlight=False)
    for name, reason in (full | net.left_alone).items():
        console.print(f"  {name}: {reason}", highlight=False, soft_wrap=True, markup=False)
