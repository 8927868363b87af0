"""`pdqat train`, `pdqat eval` and `pdqat show`."""

import argparse
import dataclasses
import json
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from rich.console import Console

from pdqat.allocation.plan_file import PlanModel, check_model, read_plan
from pdqat.arguments import Pairs, number, whole_number
from pdqat.errors import InputError
from pdqat.terminal import TrainingProgress, show_evaluation, show_summary
from pdqat.training import Run, TrainConfig, Trainer
from pdqat.training.checkpoints import load_checkpoint
from pdqat.training.config import Method, read_toml
from pdqat.training.evaluation import evaluate
from pdqat.training.going_on import name_the_same_layers, options_of, starting_point
from pdqat.training.presets import PRESETS, resolve_config
from pdqat.training.process import check_compiler, keep_freed_memory
from pdqat.training.setup import Setup
from pdqat.training.summary import constraint_entries


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
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
    explained = {each.name: each.metadata["help"] for each in dataclasses.fields(TrainConfig)}
    train.add_argument("--plan", type=Path, dest="plan_file", metavar="FILE", help=explained["plan"])
    train.add_argument(
        "--from",
        type=Path,
        dest="source",
        metavar="RUN",
        help="go on from a finished run: its options unless given here, its best weights, its multipliers",
    )
    train.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in this folder")
    _add_config_flags(train)

    evaluate_ = commands.add_parser("eval", help="measure a run's model again")
    evaluate_.set_defaults(command=_eval)
    evaluate_.add_argument("run", type=Path, metavar="RUN", help="run folder")
    evaluate_.add_argument(
        "--part", choices=("test", "validation"), default="test", help="which images (default: test)"
    )
    evaluate_.add_argument("--checkpoint", choices=("best", "last"), default="best", help="which state (default: best)")
    evaluate_.add_argument("--json", action="store_true", help="print JSON instead of tables")

    show = commands.add_parser("show", help="show the final tables of a run again")
    show.set_defaults(command=_show)
    show.add_argument("run", type=Path, metavar="RUN", help="run folder")
    show.add_argument("--json", action="store_true", help="print the summary as JSON")


def _add_config_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for every field of TrainConfig, checked where all values are checked."""
    hints = get_type_hints(TrainConfig)
    for each in dataclasses.fields(TrainConfig):
        if each.name == "plan":
            continue  # comes from a file
        flag, text, hint = f"--{each.name.replace('_', '-')}", each.metadata["help"], hints[each.name]
        default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        shown = " ".join(map(str, default)) if isinstance(default, list | dict) else str(default)
        text = text if default is None or not shown else f"{text} (default: {shown})"
        text = text.replace("%", "%%")
        plain = (
            next((arg for arg in get_args(hint) if arg is not type(None)), hint)
            if type(None) in get_args(hint)
            else hint
        )
        if plain is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        elif get_origin(plain) is list:
            kind = get_args(plain)[0]
            parser.add_argument(flag, nargs="+", type=number if kind is float else str, help=text, metavar="X")
        elif get_origin(plain) is dict:
            values = get_args(plain)[1]
            parser.add_argument(
                flag, nargs="+", action=Pairs, of_numbers=values is float, help=text, metavar="PATTERN=X"
            )
        elif issubclass(plain, StrEnum):
            parser.add_argument(flag, help=f"{text}; one of {', '.join(plain)}", metavar="NAME")
        else:
            read, shown_as = _SCALARS[plain]
            parser.add_argument(flag, type=read, help=text, metavar=shown_as)


_SCALARS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (whole_number, "N"),
    float: (number, "X"),
    str: (str, "TEXT"),
}


def _train(options: argparse.Namespace) -> None:
    flags = {each.name: getattr(options, each.name) for each in dataclasses.fields(TrainConfig) if each.name in options}
    run, setup = _new(options, flags) if options.resume is None else _resumed(options, flags)
    keep_freed_memory()
    console = Console()
    with run.locked():
        trainer = Trainer(run, setup)
        _say_left_alone(console, setup)
        if trainer.compile_problem is not None:
            console.print(f"Training without --compile: {trainer.compile_problem}", markup=False)
        with TrainingProgress(console) as progress:
            summary = trainer.train(progress)
    show_summary(console, summary, str(run.path))


def _resumed(options: argparse.Namespace, flags: dict[str, Any]) -> tuple[Run, Setup]:
    if flags or options.config or options.preset or options.out or options.plan_file or options.source:
        raise InputError("--resume takes everything from the run folder: give no other option with it")
    run = Run.open(options.resume)
    if run.summary_file.exists():
        raise InputError(f"the run {run.path} is finished; see it with: pdqat show {run.path}")
    return run, _setup(run) if run.last.exists() else Setup(run.config())


def _new(options: argparse.Namespace, flags: dict[str, Any]) -> tuple[Run, Setup]:
    config = resolve_config(options.preset, _given(options, flags), flags)
    config = dataclasses.replace(config, data_path=_absolute(config.data_path), init=_absolute(config.init))
    for name in ("replan", "budget_bits"):
        if name in flags and config.budget is None:
            raise InputError(f"--{name.replace('_', '-')} is for a budget, and no --budget is given")
    if options.plan_file is not None:
        check_model(options.plan_file, PlanModel(config.model, config.width))
    folder = options.out or Path("runs") / f"{config.data}-{config.method.value}-{datetime.now():%Y%m%d-%H%M%S}"
    if folder.exists():
        raise InputError(f"{folder} exists; give another --out, or continue that run with --resume {folder}")
    setup = Setup(config)
    if options.source is not None:
        same = name_the_same_layers(config, setup.net.plans, Run.open(options.source))
        if same != config:
            config, setup = same, Setup(same)
    if config.compile and not config.compile_fallback:
        check_compiler()  # before there is a folder
    setup.check_budget()
    return Run.create(folder, config), setup


def _given(options: argparse.Namespace, flags: dict[str, Any]) -> dict[str, Any]:
    """What --from, --config and --plan say, the later over the earlier."""
    file = read_toml(options.config) if options.config else {}
    before: dict[str, Any] = {}
    start: dict[str, Any] = {}
    if options.source is not None:
        if options.preset is not None or "preset" in file:
            raise InputError("--from takes the options of the run that it goes on from: give no preset with it")
        if "init" in options:
            raise InputError("--from starts from the weights of the run that it goes on from: give no --init with it")
        run = Run.open(options.source)
        before, start = options_of(run, {**file, **flags}), starting_point(run)
    plan: dict[str, Any] = {}
    if options.plan_file is not None:
        pinned = {**before, **file, **flags}.get("budget") is not None  # under a budget layers say which stay
        if "bits" in flags or ({**file, **flags}.get("layers") and not pinned):
            name = "bits" if "bits" in flags else "layers"
            raise InputError(f"--plan names the precision of each layer: give no --{name} with it")
        precisions = read_plan(options.plan_file)
        plan = {"plan": {layer: str(precision) for layer, precision in precisions.items()}}
        plan |= {} if pinned else {"layers": {}}
    return {**before, **file, **start, **plan}


def _absolute(path: str | None) -> str | None:
    """So that the run can be used from any folder."""
    return None if path is None else str(Path(path).absolute())


def _say_left_alone(console: Console, setup: Setup) -> None:
    if setup.config.method is Method.FULL:
        return
    plans = setup.net.plans.values()
    low = [layer for layer in setup.net.layers if any(layer in plan.low_layers for plan in plans)]
    kept = {layer: "full precision by the plan" for layer in setup.net.layers if layer not in low}
    kept |= setup.net.left_alone
    console.print(f"{len(low)} layers quantised; in full precision:", highlight=False)
    for name, reason in kept.items():
        console.print(f"  {name}: {reason}", highlight=False, soft_wrap=True, markup=False)


def _eval(options: argparse.Namespace) -> None:
    run = Run.open(options.run)
    setup = _setup(run)
    path = run.last if options.checkpoint == "last" else run.best
    setup.load(load_checkpoint(path), path)
    batches = setup.test_batches() if options.part == "test" else setup.validation_batches()
    found = evaluate(setup.objective, batches)
    constraints = constraint_entries(setup.objective, found.distances)
    if options.json:
        print(json.dumps({"part": options.part, "accuracy": found.accuracy, "constraints": constraints}, indent=2))
    else:
        plans = {name: plan.as_text() for name, plan in setup.net.plans.items()}
        show_evaluation(Console(), found.accuracy, constraints, plans, options.part)


def _setup(run: Run) -> Setup:
    """For a run with checkpoints: they hold the weights, so the file it started from may be gone."""
    return Setup(dataclasses.replace(run.config(), init=None))


def _show(options: argparse.Namespace) -> None:
    run = Run.open(options.run)
    summary = run.summary()
    if options.json:
        print(json.dumps(summary, indent=2))
    else:
        show_summary(Console(), summary, str(run.path))
