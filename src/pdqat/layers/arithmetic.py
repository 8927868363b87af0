"""Products and convolutions in bfloat16 on processors that have no kernels for it.

There torch computes them by a slow general loop. The same numbers come from
float32 kernels: operands and result are rounded to bfloat16, sums are kept in float32, as bfloat16 units do it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

HAS_BFLOAT16_KERNELS = torch.backends.mkldnn.is_available() and bool(  # type: ignore[no-untyped-call]
    torch.ops.mkldnn._is_mkldnn_bf16_supported()
)


def in_autocast(operation: Callable[..., Tensor], *operands: Tensor | None) -> Tensor:
    """`operation` on the operands, under the autocast that is on: by float32 kernels where bfloat16 has none."""
    given = [each for each in operands if each is not None]
    device = given[0].device.type
    emulated = (
        device == "cpu"
        and not HAS_BFLOAT16_KERNELS
        and torch.is_autocast_enabled(device)
        and torch.get_autocast_dtype(device) is torch.bfloat16
        and all(each.dtype is not torch.float64 for each in given)  # autocast leaves it alone
    )
    if not emulated:
        return operation(*operands)
    with torch.autocast(device, enabled=False):
        return operation(*(None if each is None else each.bfloat16().float() for each in operands)).bfloat16()
