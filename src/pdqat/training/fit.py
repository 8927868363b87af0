"""`fit`: train a problem on batches."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from pdqat.allocation.choices import Bits
from pdqat.batches import Batches
from pdqat.description import describe, in_todays_fields
from pdqat.disk import as_path
from pdqat.distributed import from_first, is_first, noticing_losses
from pdqat.errors import InputError
from pdqat.metric import MetricLike
from pdqat.printing import say
from pdqat.runs.checkpoints import save_example
from pdqat.runs.folder import Run, is_run
from pdqat.task import Problem, check_problem
from pdqat.terminal import PlainConsole
from pdqat.training.callbacks import Callback
from pdqat.training.descent import OptimizerLike, SchedulerLike
from pdqat.training.history import History
from pdqat.training.progress import TrainingProgress
from pdqat.training.replanning import Replanning
from pdqat.training.settings import OptimizerName, Schedule, Settings
from pdqat.training.store import FolderStore
from pdqat.training.trainer import Trainer


def fit(
    problem: Problem,
    batches: Batches,
    *,
    validation: Batches,
    epochs: int,
    lr: float = 1e-3,
    test: Batches | None = None,
    metric: MetricLike | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    optimizer: OptimizerLike | str = OptimizerName.ADAM,
    scheduler: SchedulerLike | None = None,
    scheduler_every: str = "epoch",
    schedule: Schedule | str = Schedule.STEPS,
    milestones: Sequence[float] = (0.5, 0.75, 0.9),
    decay: float = 0.1,
    patience: int = 0,
    dual_every: int = 0,
    warm_up: float = 0.0,
    progressive: Sequence[Bits] = (),
    flip_rate: float | None = None,
    norm_batches: int = 20,
    slack_batches: Batches | None = None,
    replanning: Replanning | None = None,
    accumulate: int = 1,
    clip_norm: float | None = None,
    seed: int = 0,
    amp: bool = False,
    compile: bool = False,  # noqa: A002 - torch's word
    compile_fallback: bool = False,
    sync_norms: bool = True,
) -> History:
    """Train: descent on the weights, ascent on the multipliers.

    The problem ends with the state of the best epoch, in evaluation mode.

    A loader is any iterable of (inputs, target) that can be gone through again: a torch DataLoader, a list, or
    `pdqat.data.Batches`. All that is random in an epoch should come from torch (or from the loader's `generator`):
    both are seeded anew with every epoch, so that a training that was stopped and resumed equals one that was not.

    Where torch.distributed has a process group, all its processes call this with the same arguments. Each computes its
    share of every batch, and they take the steps that one process would; the first one writes
    and shows.

    Args:
        problem: a Lagrangian, or a TaskProblem to compare with.
        batches: what to train on.
        validation: held-out samples; the best epoch is chosen by them.
        epochs: passes over the batches.
        lr: learning rate: the initial one, or the highest of one-cycle.
        test: samples that only the summary at the end looks at.
        metric: what the best epoch is chosen by, a mean over the low-precision views: "accuracy", "loss", a function
            of (output, target) of which more is better, or a Metric; by default accuracy if targets are class labels,
            else the least loss.
        out: a run folder to make, with checkpoints, metrics and summary; `pdqat.load(out, model)` opens it again.
        resume: continue the training in `out`, which ends with the numbers of one that was never stopped.
        progress: show a progress bar, or a line an epoch where there is no terminal.
        callbacks: are told of the start, of steps and of epochs; of several processes, those of the first one.
        optimizer: "adam"; or "muon", which turns weights that a batch norm follows by orthogonal matrices, for
            trainings from scratch; or a torch optimizer of the network's parameters, or a function of parameters that
            makes one, where `lr` and `schedule` don't apply.
        scheduler: a torch learning-rate scheduler of that optimizer, or a function of the optimizer that makes one.
        scheduler_every: when it steps: "epoch" or "step".
        schedule: "steps": the rate decays at milestones; "one-cycle": up in a line, down in a cosine.
        milestones: the parts of the epochs after which the rate is decayed.
        decay: the factor on the rate at a milestone.
        patience: stop after so many epochs without a better validation score; 0 is never.
        dual_every: batches between steps of the multipliers; 0 is once an epoch.
        warm_up: the part of the epochs, at first, in full precision alone; low precision then starts from there.
        progressive: precisions above the plan's own, such as [8, 4] before 2 bits, that are trained before it, in equal
            parts of the epochs after the warm-up. Layers that have more bits in the plan keep them.
        flip_rate: hold the part of the quantised weights' codes that change in a step to this, less and less to 0 at
            the end, by shortening these weights' steps; without it steps are the optimizer's.
        norm_batches: batches of `batches` on which the statistics of low-precision norms are estimated anew before
            each validation; 0 keeps the running ones, which lag behind weights whose codes flip.
        slack_batches: training samples on which fresh slacks are measured for every step of the multipliers; without
            them the running mean over the batches since the last one is taken, which is free.
        replanning: a budget under which bits are chosen anew on the way.
        accumulate: batches whose gradients are averaged for one step of the weights.
        clip_norm: the largest norm that a gradient may have; longer ones are shortened.
        seed: of all that is random.
        amp: train in bfloat16 (autocast); losses, distances and evaluations stay in float32.
        compile: compile training and evaluation with torch.compile.
        compile_fallback: where torch.compile does not work, train without it instead of stopping.
        sync_norms: in several processes, whether batch norms take their statistics from all shares of a batch, as one
            process does, or each from its own, with less to send.

    Returns:
        The history: print it for the table of scores and constraints.

    Examples:
        >>> import pdqat, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
        >>> history = pdqat.fit(problem, [(x, y)], validation=[(x, y)], epochs=2, progress=False)
        >>> len(history.epochs), list(history.scores)
        (2, ['full', '4-bit'])
    """
    settings = Settings(
        epochs=epochs,
        optimizer=optimizer if isinstance(optimizer, str) else OptimizerName.ADAM,
        lr=lr,
        schedule=schedule,
        milestones=tuple(milestones),
        decay=decay,
        patience=patience,
        dual_every=dual_every,
        warm_up=warm_up,
        progressive=progressive,
        flip_rate=flip_rate,
        norm_batches=norm_batches,
        accumulate=accumulate,
        clip_norm=clip_norm,
        seed=seed,
        amp=amp,
        compile=compile,
        compile_fallback=compile_fallback,
        sync_norms=sync_norms,
    )
    check_problem(problem)
    if not (isinstance(callbacks, Sequence) and all(isinstance(callback, Callback) for callback in callbacks)):
        raise InputError(f"callbacks is a list of pdqat.training.callbacks.Callback, not {callbacks!r}")
    if resume and out is None:
        raise InputError("resume continues the training in a run folder: name it with out")
    shown = [TrainingProgress(PlainConsole())] if progress and is_first() else []
    description = _description(problem, settings, scheduler is not None)
    folder = None if out is None else as_path(out, "the run folder out")
    if folder is not None:
        from_first(lambda: _check_folder(description, folder, resume))
    run = None if folder is None else Run(folder)
    with ExitStack() as stack:
        stack.enter_context(noticing_losses())
        stack.enter_context(torch.random.fork_rng(devices=[]))  # epochs are seeded; what comes after fit is not
        if run is not None and resume:
            from_first(lambda: stack.enter_context(run.locked()))
            if shown and run.starts_anew is not None:
                say(run.starts_anew)
        trainer = Trainer(
            problem,
            batches,
            validation,
            settings,
            test=test,
            metric=metric,
            slack_batches=slack_batches,
            optimizer=None if isinstance(optimizer, str) else optimizer,
            scheduler=scheduler,
            scheduler_every=scheduler_every,
            replanning=replanning,
            store=None if run is None else FolderStore(run),
            callbacks=[*callbacks, *shown],
        )
        if run is not None and resume:
            from_first(lambda: run.summary_file.unlink(missing_ok=True))  # of a training that goes on there is none
        if run is not None and not resume:  # only now: what is refused leaves no folder behind
            from_first(lambda: _begin(run, problem, description, stack))
        for display in shown:
            stack.enter_context(display)
        return trainer.train()


def _description(problem: Problem, settings: Settings, has_scheduler: bool) -> dict[str, Any]:
    """What a training is, as a run folder remembers it."""
    how = {key: value for key, value in asdict(settings).items() if key not in ("compile", "compile_fallback")}
    training = {**how, "milestones": list(settings.milestones), "scheduler": has_scheduler}
    plain: dict[str, Any] = json.loads(json.dumps({**describe(problem), "training": training}))
    return plain


def _check_folder(description: dict[str, Any], path: Path, resume: bool) -> None:
    """The run folder is there already if a training is to be resumed, and only then."""
    if resume:
        _check_same(description, Run.open(path))
    elif path.exists():
        continuing = ", or continue that training with resume=True" if is_run(path) else ""
        raise InputError(f"{path} exists; give another folder as out{continuing}")


def _begin(run: Run, problem: Problem, description: dict[str, Any], stack: ExitStack) -> None:
    """Make the folder, and hold it until the stack is left."""

    def write_first(new: Run) -> None:
        save_example(new.example, problem.net.preparation.example)
        new.write_problem(description)

    Run.create(run.path, write_first)
    stack.callback(_remove_unused, run)
    stack.enter_context(run.locked())


def _remove_unused(run: Run) -> None:
    """A training that ended before its first epoch did leaves nothing to continue: no folder either."""
    if run.last.exists() or run.best.exists() or not run.path.is_dir():
        return
    for file in (run.problem_file, run.example, run.metrics_file, run.seal.file, run.path / ".lock"):
        file.unlink(missing_ok=True)
    if not any(run.path.iterdir()):
        run.path.rmdir()


def _check_same(given: dict[str, Any], run: Run) -> None:
    """Refuse to continue a training with another problem, or in another way.

    It may go on for more epochs, unless a warm-up is a part of them: that would end elsewhere.
    """
    stored = in_todays_fields(run.problem())
    usual = {field.name: field.default for field in fields(Settings) if field.name in given["training"]}
    usual["progressive"] = []  # as a file has it
    trainings = {**usual, **stored.get("training", {})}, given["training"]  # an old run does not name a newer setting
    for what, (before, now) in (("training", trainings), ("problem", (stored, given))):
        free = ("training",) if given["training"]["warm_up"] else ("training", "epochs")
        names = [key for key in {**before, **now} if key not in free]
        different = next((key for key in names if before.get(key) != now.get(key)), None)
        if different is not None:
            raise InputError(
                f"the run {run.path} is of another {what}: its {different} is {before.get(different)!r}, here it is "
                f"{now.get(different)!r}"
            )
