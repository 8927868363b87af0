"""`pdqat train`."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat.commands.config_flags import add_config_flags, given_flags
from pdqat.commands.show import show_summary
from pdqat.config.new_run import Given, Ready, new_run, stopped_run
from pdqat.config.presets import PRESETS
from pdqat.config.train_config import Method, TrainConfig
from pdqat.config.training import trainer_of
from pdqat.errors import InputError
from pdqat.process import keep_freed_memory
from pdqat.training.progress import TrainingProgress

OWN_CODE = ("model", "data")


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    train = commands.add_parser(
        "train",
        help="train a network under precision constraints",
        description="Train a network to do its task while staying close to its own low-precision version. "
        "Every option but --out, --resume, --from and --plan is also a key of the file given with --config (with "
        "underscores).",
        argument_default=argparse.SUPPRESS,
    )
    train.set_defaults(command=_train, resume=None, config=None, preset=None, out=None, plan_file=None, source=None)
    train.add_argument("--config", type=Path, metavar="FILE", help="TOML file with any of the options below")
    presets = ", ".join(PRESETS)
    train.add_argument("--preset", metavar="NAME", help=f"start from a set of options: {presets}")
    train.add_argument("--out", type=Path, metavar="DIR", help="run folder to make; by default a new one below runs/")
    explained = {field.name: field.metadata["help"] for field in dataclasses.fields(TrainConfig)}
    train.add_argument("--plan", type=Path, dest="plan_file", metavar="FILE", help=explained["plan"])
    train.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="RUN",
        help="go on from a finished run: its options unless given here, its best weights, its multipliers",
    )
    train.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in this folder")
    add_config_flags(train)


def _train(options: argparse.Namespace) -> None:
    ready = _ready(options, given_flags(options))
    keep_freed_memory()
    console = Console()
    with ready.run.locked():
        progress = TrainingProgress(console)
        trainer = trainer_of(ready.run, ready.config, ready.loaders, ready.problem, [progress])
        _say_left_alone(console, ready)
        if trainer.compile_problem is not None:
            console.print(f"Training without --compile: {trainer.compile_problem}", markup=False)
        with progress:
            history = trainer.train()
    show_summary(console, history.summary, str(ready.run.path))


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
