"""Quantization-aware training of PyTorch models as constrained learning."""

from pdqat.allocation import allocate
from pdqat.config.load import load
from pdqat.constraints import BlockConstraint, ChannelConstraint, Constraint, LayerConstraint, OutputConstraint
from pdqat.deployment.export import export
from pdqat.duals import Ascent, DualRule, Multiplicative, NuPI
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Network, prepare
from pdqat.metric import Metric
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.sensitivity import rank
from pdqat.task import TaskProblem
from pdqat.training import fit
from pdqat.version import __version__

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
]
