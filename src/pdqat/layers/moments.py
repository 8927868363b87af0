"""Mean and variance from plain sums, in one walk over a tensor.

Eager torch has fast kernels for variances and batch norms. The compiler takes them apart, and what it makes of them
walks over the tensor by a recurrence that no processor can overlap. Sums it does well; taken of the distance to a shift
that is within some standard deviations of the mean, they lose nothing to rounding.
"""

from torch import Tensor


def shifted_moments(tensor: Tensor, shift: Tensor, over: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """d = tensor - shift, mean(d), and the variance mean(d^2) - mean(d)^2."""
    shifted = tensor - shift
    mean = shifted.mean(over)
    return shifted, mean, (shifted.square().mean(over) - mean.square()).clamp_min(0)
