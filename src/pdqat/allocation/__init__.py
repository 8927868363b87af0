"""From prices of precision and a budget to a BitPlan."""

from pdqat.allocation.budget import Budget
from pdqat.allocation.program import Allocation, allocate
from pdqat.allocation.sizes import LayerSize

__all__ = ["Allocation", "Budget", "LayerSize", "allocate"]
