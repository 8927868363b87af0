"""Quantization-aware training of PyTorch models as constrained learning."""

from pdqat.constraints import BlockConstraint, ChannelConstraint, Constraint, LayerConstraint, OutputConstraint
from pdqat.duals import Duals
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Network, prepare
from pdqat.precision import FULL, BitPlan, Precision

__all__ = [
    "FULL",
    "BitPlan",
    "BlockConstraint",
    "ChannelConstraint",
    "Constraint",
    "Duals",
    "InputError",
    "Lagrangian",
    "LayerConstraint",
    "Network",
    "OutputConstraint",
    "Precision",
    "prepare",
]
__version__ = "0.1.0"
