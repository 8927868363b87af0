"""A run that can be trained: a new one, from what the command line was given, or one that was stopped."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pdqat.config.continuing import name_the_same_layers, options_of, starting_point
from pdqat.config.loaders import OWN_OPTIONS, Loaders, loaders_of
from pdqat.config.old_keys import modern
from pdqat.config.own_code import check_named_again, check_named_on_the_command_line, is_own, takes
from pdqat.config.presets import config_of, resolve_config
from pdqat.config.problem import problem_of
from pdqat.config.train_config import OF_CONSTRAINTS, Method, TrainConfig
from pdqat.config.training import check_stages
from pdqat.disk import read_file
from pdqat.distributed import from_first, is_restarted, processes
from pdqat.errors import InputError
from pdqat.process import check_compiler
from pdqat.runs.folder import Run, check_new
from pdqat.runs.forms import LARGEST_TOML, read_toml
from pdqat.runs.plan_file import PlanModel, check_model, read_plan
from pdqat.task import Problem
from pdqat.trackers.log import check_trackers


@dataclass(frozen=True)
class Given:
    """What the command line was given for a new run."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    """Options by their key."""
    config: Path | None = None
    preset: str | None = None
    plan: Path | None = None
    source: Path | None = None
    """The finished run to continue from."""
    out: Path | None = None


@dataclass(frozen=True)
class Ready:
    """A run with all that its training needs."""

    run: Run
    config: TrainConfig
    loaders: Loaders
    problem: Problem


def new_run(given: Given) -> Ready:
    """Make a run folder with the resolved configuration, once everything that it names has been built."""
    config = _resolved(given)
    _check_flags(config, given)
    check_trackers(config.log)
    if given.plan is not None:
        check_model(given.plan, PlanModel(config.model, config.width))
    name = f"{_word(config.data)}-{config.method.value}-{datetime.now():%Y%m%d-%H%M%S}"
    folder = given.out or Path("runs") / name
    check_new(folder)
    loaders = loaders_of(config)
    _check_own_options(config, given, loaders)
    problem = problem_of(config, loaders)
    if given.source is not None:
        same = name_the_same_layers(config, problem.net.plans, Run.open(given.source))
        if same != config:
            config, problem = same, problem_of(same, loaders)
    check_stages(config, problem)  # before there is a folder
    if config.compile and not config.compile_fallback:
        check_compiler()
    run = Run.create(folder, lambda new: new.write_options(config.as_options()))
    return Ready(run, config, loaders, problem)


def shared_run(given: Given) -> Ready:
    """A run that several processes train: the first one makes the folder, the others open it; collective.

    Where torchrun starts them again it is the same command, so the folder that it made is continued.
    """
    out, model, data = given.out, given.flags.get("model"), given.flags.get("data")
    if out is None:
        raise InputError(f"{processes()} processes train one run: name its folder with --out")
    made: list[Ready] = []
    from_first(lambda: made.append(stopped_run(out, model, data) if _is_begun(given, out) else new_run(given)))
    return made[0] if made else stopped_run(out, model, data)


def _is_begun(given: Given, out: Path) -> bool:
    """Whether torchrun's first try has made this folder; a folder of other options was there before."""
    return is_restarted() and out.exists() and config_of(Run.open(out)) == _resolved(given)


def stopped_run(path: Path, model: str | None = None, data: str | None = None) -> Ready:
    """A run to continue; own code has to be named again."""
    run = Run.open(path)
    config = config_of(run)
    if run.summary_file.exists():
        raise InputError(f"the run {run.path} is finished; see it with: pdqat show {run.path}")
    check_named_again("model", config.model, model, path)
    check_named_again("data", config.data, data, path)
    check_trackers(config.log)
    if run.last.exists():  # which holds the weights, so the file that the run started from may be gone
        config = dataclasses.replace(config, init=None, take_over=False)
    loaders = loaders_of(config)
    return Ready(run, config, loaders, problem_of(config, loaders))


def _resolved(given: Given) -> TrainConfig:
    config = resolve_config(given.preset, _options(given), given.flags)
    return dataclasses.replace(
        config, data_path=_absolute(config.data_path), init=_absolute(config.init), teacher=_absolute(config.teacher)
    )


def _options(given: Given) -> dict[str, Any]:
    """What --from, --config and --plan say, the later over the earlier."""
    file = modern(_file(given.config)) if given.config else {}
    if given.config is not None:
        for name in ("model", "data"):
            check_named_on_the_command_line(name, file.get(name), given.flags.get(name), given.config)
    before: dict[str, Any] = {}
    start: dict[str, Any] = {}
    if given.source is not None:
        if given.preset is not None or "preset" in file:
            raise InputError("--from takes the options of the run that it goes on from: give no preset with it")
        if "init" in given.flags:
            raise InputError("--from starts from the weights of the run that it goes on from: give no --init with it")
        run = Run.open(given.source)
        before, start = options_of(run, {**file, **given.flags}), starting_point(run)
        for name in ("model", "data"):
            if {**file, **given.flags}.get(name) is None:
                check_named_again(name, before[name], None, given.source)
    plan: dict[str, Any] = {}
    if given.plan is not None:
        pinned = {**before, **file, **given.flags}.get("budget") is not None  # under a budget layers say which stay
        if "bits" in given.flags or ({**file, **given.flags}.get("layers") and not pinned):
            name = "bits" if "bits" in given.flags else "layers"
            raise InputError(f"--plan names the precision of each layer: give no --{name} with it")
        precisions = read_plan(given.plan)
        plan = {"plan": {layer: str(precision) for layer, precision in precisions.items()}}
        plan |= {} if pinned else {"layers": {}}
    named = {**file, **given.flags}
    method = {**before, **named}.get("method", TrainConfig.method)
    idle = next((name for name in named if name in OF_CONSTRAINTS), None)
    if idle is not None and method in (Method.FULL, Method.STE):
        raise InputError(f"{idle} is of constrained training, which method {str(method)!r} is not")
    return {**before, **file, **start, **plan}


def _file(path: Path) -> dict[str, Any]:
    try:
        return read_toml(read_file(path, LARGEST_TOML, streams=True), path)
    except OSError as error:
        raise InputError(f"can't read the configuration {path}: {error.strerror or error}") from error


def _check_flags(config: TrainConfig, given: Given) -> None:
    """Refuse flags that would change nothing."""
    for name in ("replan", "budget_bits"):
        if name in given.flags and config.budget is None:
            raise InputError(f"--{_flag(name)} is for a budget, and no --budget is given")
    if "image_size" in given.flags and config.data == "digits":
        raise InputError("--image-size is for images of CIFAR or a folder, and those of 'digits' have one size")
    for name in ("milestones", "decay"):
        if name in given.flags and config.schedule != "steps":
            raise InputError(f"--{name} is for the schedule 'steps', and this one is {config.schedule!r}")


def _check_own_options(config: TrainConfig, given: Given, loaders: Loaders) -> None:
    """Refuse flags that neither own code nor what is made of its data set takes."""
    of_data = ("data_path", "image_size") if loaders.dataset is not None else OWN_OPTIONS
    for path, names in ((config.data, of_data), (config.model, ("width",))):
        unused = [name for name in names if name in given.flags and name != "seed"] if is_own(path) else []
        for name in unused:
            if not takes(path, name):
                raise InputError(f"--{_flag(name)} would change nothing: {path} takes no argument {name!r}")


def _flag(key: str) -> str:
    return key.replace("_", "-")


def _word(name: str) -> str:
    """A name as part of a folder's."""
    return name.replace(":", "-")


def _absolute(path: str | None) -> str | None:
    """So that the run can be used from any folder."""
    return None if path is None else str(Path(path).absolute())
