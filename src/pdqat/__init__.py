"""Quantization-aware training of PyTorch models as constrained learning.

Names are imported when they are first used, so that what needs no torch, such as `pdqat --help`, does not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdqat.version import __version__

if TYPE_CHECKING:
    from pdqat.allocation.allocate import allocate
    from pdqat.config.load import load
    from pdqat.constraints import (
        BlockConstraint,
        ChannelConstraint,
        Constraint,
        LayerConstraint,
        LossConstraint,
        OutputConstraint,
    )
    from pdqat.deployment.export import export
    from pdqat.dual_rules import Ascent, DualRule, Multiplicative, NuPI
    from pdqat.errors import InputError
    from pdqat.evaluation import evaluate
    from pdqat.lagrangian import Lagrangian
    from pdqat.layers import Network, prepare
    from pdqat.metric import Metric
    from pdqat.precision import FULL, BitPlan, Precision
    from pdqat.reporting.own import report
    from pdqat.sensitivity import rank
    from pdqat.task import TaskProblem
    from pdqat.training import fit

__all__ = [
    "FULL",
    "Ascent",
    "BitPlan",
    "BlockConstraint",
    "ChannelConstraint",
    "Constraint",
    "DualRule",
    "InputError",
    "Lagrangian",
    "LayerConstraint",
    "LossConstraint",
    "Metric",
    "Multiplicative",
    "Network",
    "NuPI",
    "OutputConstraint",
    "Precision",
    "TaskProblem",
    "__version__",
    "allocate",
    "evaluate",
    "export",
    "fit",
    "load",
    "prepare",
    "rank",
    "report",
]

_NAMES_IN = {
    "allocation.allocate": ("allocate",),
    "config.load": ("load",),
    "constraints": (
        *("BlockConstraint", "ChannelConstraint", "Constraint"),
        *("LayerConstraint", "LossConstraint", "OutputConstraint"),
    ),
    "deployment.export": ("export",),
    "dual_rules": ("Ascent", "DualRule", "Multiplicative", "NuPI"),
    "errors": ("InputError",),
    "evaluation": ("evaluate",),
    "lagrangian": ("Lagrangian",),
    "layers": ("Network", "prepare"),
    "metric": ("Metric",),
    "precision": ("FULL", "BitPlan", "Precision"),
    "reporting.own": ("report",),
    "sensitivity": ("rank",),
    "task": ("TaskProblem",),
    "training": ("fit",),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, or a module such as `pdqat.data`, imported now."""
    if name in _MODULE_OF:
        globals()[name] = getattr(import_module(f"pdqat.{_MODULE_OF[name]}"), name)
        return globals()[name]
    if not name.startswith("_"):
        try:
            return import_module(f"pdqat.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"pdqat.{name}":
                raise
    raise AttributeError(f"module 'pdqat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
