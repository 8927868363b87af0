"""From prices of precision and a budget to a BitPlan."""

from pdqat.allocation.budget import Budget, LayerSize
from pdqat.allocation.program import Allocation, allocate

__all__ = ["Allocation", "Budget", "LayerSize", "allocate"]
