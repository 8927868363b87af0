"""From prices of precision and a budget to a plan."""

from pdqat.allocation.allocate import Allocation, allocate
from pdqat.allocation.budget import Budget

__all__ = ["Allocation", "Budget", "allocate"]
