"""`pdqat.load`: a run folder becomes a problem again."""

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from pdqat.config.own_code import is_own
from pdqat.config.presets import config_of
from pdqat.config.trained import Trained
from pdqat.constraints import Constraint
from pdqat.description import rebuild
from pdqat.disk import as_path
from pdqat.dual_rules import DualRule
from pdqat.errors import InputError
from pdqat.layers.interface import OutputChoice
from pdqat.objective import Loss
from pdqat.quantizers import Scheme
from pdqat.runs.checkpoints import load_checkpoint, load_example
from pdqat.runs.folder import Run
from pdqat.task import Problem
from pdqat.training.state import with_state


def load(
    folder: str | Path,
    model: nn.Module | None = None,
    loss: Loss | None = None,
    *,
    checkpoint: str = "best",
    quantizer: Scheme | None = None,
    output: OutputChoice | None = None,
    constraints: Sequence[Constraint] | None = None,
    duals: DualRule | None = None,
    teacher: nn.Module | None = None,
) -> Problem:
    """Open a run folder: the problem with the weights, norms, quantisers and multipliers that were trained.

    No code is run from the folder.

    Args:
        folder: what `fit(..., out=folder)` or `pdqat train --out folder` made.
        model: a plain module of the kind that was trained, with any weights; it is prepared in place. Leave it out for
            a run of a built-in model.
        loss: the task loss, if it was not one of torch's functions, such as `F.cross_entropy`.
        checkpoint: "best", the chosen model, or "last".
        quantizer: the scheme, if it was an own one.
        output: the function that chooses the tensor to compare, if it was one.
        constraints: all constraints, if one of them was of an own class.
        duals: the dual rule, if it was of an own class.
        teacher: the teacher that outputs were held to, if there was one.

    Examples:
        >>> import pdqat, tempfile, torch
        >>> def build():
        ...     return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2))
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> problem = pdqat.Lagrangian(pdqat.prepare(build(), x, bits=4), nn.functional.cross_entropy)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pdqat.fit(problem, [(x, y)], validation=[(x, y)], epochs=1, out=f"{folder}/run", progress=False)
        ...     again = pdqat.load(f"{folder}/run", build())
        >>> torch.equal(again.net(x), problem.eval().net(x))
        True
    """
    if checkpoint not in ("best", "last"):
        raise InputError(f"checkpoint is 'best' or 'last', not {checkpoint!r}")
    run = Run.open(as_path(folder, "a run folder"))
    if not run.problem_file.exists():
        config = config_of(run)
        own = [name for name in (config.model, config.data) if is_own(name)]
        if own:
            raise InputError(
                f"the run {folder} was trained by the command line with {' and '.join(own)}, and a folder alone may "
                "not run code: open it with pdqat.config.trained.Trained.open, which takes these names"
            )
        if model is not None:
            raise InputError(f"the run {folder} is of a model that pdqat builds itself: give no model")
        return Trained.open(run.path, checkpoint=checkpoint).problem
    if model is None:
        raise InputError(f"the run {folder} is of a model of own code: give a plain module of that kind as model")
    file = run.best if checkpoint == "best" else run.last
    state = load_checkpoint(file)  # before the model is touched
    problem = rebuild(
        run.problem(),
        model,
        load_example(run.example),
        loss,
        quantizer=quantizer,
        output=output,
        constraints=constraints,
        duals=duals,
        teacher=teacher,
    )
    try:
        return with_state(problem, state, f"the checkpoint {file}").eval()
    except InputError:
        problem.net.restore()
        raise
