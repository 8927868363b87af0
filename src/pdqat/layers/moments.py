"""Mean and variance from plain sums, in one walk over a tensor.

Eager torch has fast kernels for variances and batch norms. The compiler takes them apart, and what it makes of them
walks over the tensor by a recurrence that no processor can overlap. Sums it does well; shifted by the channel's first
value they lose nothing to rounding.
"""

from torch import Tensor


def shifted_moments(tensor: Tensor, over: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The shift, d = tensor - shift, mean(d), and the variance mean(d^2) - mean(d)^2."""
    shift = tensor.detach()[tuple(slice(0, 1) if dim in over else slice(None) for dim in range(tensor.dim()))]
    shifted = tensor - shift
    mean = shifted.mean(over)
    return shift, shifted, mean, (shifted.square().mean(over) - mean.square()).clamp_min(0)
