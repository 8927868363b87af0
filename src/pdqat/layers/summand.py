"""Summands: what residual additions and means of images add up, rounded under a plan to whole numbers of one step.

A sum of such numbers is a whole number of the same step, which integers and float32 both hold exactly. All summands of
one stream (what flows into the same sums) share their quantiser, and so the step, a power of two.
"""

import copy

from torch import Tensor, nn

from pdqat.layers.distances import precise
from pdqat.layers.rounding import Rounding, round_output
from pdqat.layers.state import Gradient, ViewState
from pdqat.precision import BitPlan
from pdqat.quantizers import Quantizer

SUMMAND_BITS = 8


class Summand(nn.Module):
    """A layer or norm whose output may be added to others."""

    name: str
    state: ViewState
    sums: nn.ModuleDict
    """A quantiser for every plan; empty if the output is not added, or sums are left alone."""

    def as_summand(self, output: Tensor) -> Tensor:
        """The output, rounded under a plan if it is a summand."""
        plan = self.state.plan
        if plan is None or plan.name not in self.sums:
            return output
        quantizer = self.sums[plan.name]
        assert isinstance(quantizer, Quantizer)
        real = precise(output)
        if self.name in self.state.calibrating:
            quantizer.calibrate(real, SUMMAND_BITS)
        elif self.training:
            quantizer.observe(real, SUMMAND_BITS, self.state.is_shared)
        if self.state.gradient is Gradient.EXACT:
            return quantizer.quantize(real.detach(), SUMMAND_BITS).to(output.dtype)
        # A copy, since what adds and clips the sums may do so in place, which torch forbids for the estimate itself.
        return quantizer.straight_through(real, SUMMAND_BITS).to(output.dtype, copy=True)

    def attach_sum_quantizer_(self, plan: BitPlan) -> None:
        """Give the module a child that rounds what it makes, if it is a summand under the plan."""
        if plan.name in self.sums:
            quantizer = self.sums[plan.name]
            assert isinstance(quantizer, Quantizer)
            round_output(self, Rounding(copy.deepcopy(quantizer), SUMMAND_BITS))
