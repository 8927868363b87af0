"""Steps of a C program: one call of a kernel each, with its constants and the tensors that it reads and writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdqat.deployment.formats.c_rounding import product_rounding, real_rounding, score_rounding
from pdqat.deployment.formats.c_rows import RowOperation
from pdqat.deployment.formats.c_tensors import LINES, PLANES, WORD, Stored
from pdqat.deployment.formats.c_text import structure, table
from pdqat.deployment.formats.c_weights import BYTE, Weights, weights_of
from pdqat.deployment.integer.operations import IntegerProduct, RealProduct, RequantizedProduct
from pdqat.errors import InputError

Sizes = int | Sequence[int]
INT32 = 2**31
EACH_PIXEL, SUM_PIXELS = "each_pixel", "sum_pixels"
"""Steps that call no kernel of their own: they read rows."""
AT_ONCE = 16
"""Products of bytes that processors with vectors add in one go; an output with fewer is not padded."""
MOST_PRODUCTS = 8
"""Of planes of weights and codes: with more of them a word of bits costs more than its numbers one by one."""
LEAST_CHANNELS = 8
"""Of a group, for bits to fill a good part of a word."""


@dataclass(eq=False)
class Step:
    """A call, and what its rows go through before they are stored."""

    about: list[str]
    """For comments: only names that are plain, and numbers."""
    kernel: str
    arguments: list[str]
    """In front of the tensors."""
    reads: list[Stored]
    writes: Stored
    constants: list[str] = field(default_factory=list)
    """Definitions in C."""
    constant_bytes: int = 0
    macs: int = 0
    """Products that are added up."""
    rows: list[RowOperation] = field(default_factory=list)
    makes_rows: bool = True
    """Whether operations on rows can follow."""
    seen: Stored | None = None
    """What a row of windows sees, where it is gathered before the first of them."""
    window_words: int = 0
    window_bytes: int = 0
    window_codes: int = 0
    """What windows take: words of bits, codes as bytes, and codes of 16 bits."""

    @property
    def bytes(self) -> int:
        """Of all constants."""
        return self.constant_bytes + sum(row.bytes for row in self.rows)


@dataclass(frozen=True)
class Geometry:
    """Of a convolution's windows, in C's names."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @classmethod
    def of(cls, weight: Tensor, options: Mapping[str, Any]) -> "Geometry":
        """Of a weight of a convolution or linear layer; in one dimension windows are one row high."""
        dims = weight.dim() - 2
        kernel = pair(tuple(weight.shape[2:]), dims, 1)
        stride, dilation = (pair(options.get(name, 1), dims, 1) for name in ("stride", "dilation"))
        return cls(kernel, stride, pair(options.get("padding", 0), dims, 0), dilation, options.get("groups", 1))

    def fields(self) -> dict[str, int]:
        """As a struct has them."""
        return {
            "groups": self.groups,
            "kernel_height": self.kernel[0],
            "kernel_width": self.kernel[1],
            "stride_y": self.stride[0],
            "stride_x": self.stride[1],
            "pad_y": self.padding[0],
            "pad_x": self.padding[1],
            "dilation_y": self.dilation[0],
            "dilation_x": self.dilation[1],
        }

    def is_of_vectors(self, given: Stored) -> bool:
        """Whether the only window is all that is given."""
        return (given.height, given.width) == self.kernel == (1, 1) and self.groups == 1

    def can_be_gathered_by_rows(self) -> bool:
        """Whether windows of a row are made of neighbouring columns of the image."""
        return self.groups == 1 and self.dilation[1] == 1 and self.padding[1] < self.kernel[1]

    def columns(self, made: Stored) -> int:
        """Of the padded image, that a row of windows sees."""
        return (made.width - 1) * self.stride[1] + self.kernel[1]

    def __str__(self) -> str:
        return f"{self.kernel[0]} x {self.kernel[1]}"


def pair(value: Sizes, dims: int, usual: int) -> tuple[int, int]:
    """Numbers for rows and columns, where one may stand for both; rows have the usual one if there are only columns.

    >>> pair(3, 2, 1), pair((3,), 1, 1), pair((), 0, 0)
    ((3, 3), (1, 3), (0, 0))
    """
    numbers = [value] if isinstance(value, int) else list(value)
    numbers = numbers * dims if len(numbers) == 1 else numbers
    rows, columns = [*[usual] * (2 - len(numbers)), *numbers]
    return rows, columns


@dataclass(frozen=True)
class LaidOut:
    """Weights as a kernel wants them."""

    kernel: str
    row: int
    """Words or bytes of an output."""
    weights: np.ndarray
    seen: Stored | None = None
    """What is gathered for a row of windows."""


@dataclass(frozen=True)
class Product:
    """A convolution or linear layer on codes from low to high, before it is known how these are stored."""

    name: str
    operation: IntegerProduct
    weights: Weights
    rounding: RowOperation
    unit: float | None = None
    """Of scores in whole numbers."""

    @classmethod
    def of(cls, name: str, operation: IntegerProduct, low: int, high: int, is_last: bool) -> "Product":
        """With its rounding; sums that 32 bits can't hold are refused."""
        if operation.is_transposed or operation.weight.dim() > 4:
            raise InputError(f"{name}: a transposed or three-dimensional convolution can't be written to C")
        rows = operation.weight.flatten(1).long()
        is_rounded = isinstance(operation, RequantizedProduct)
        weights = weights_of(operation.weight, ~rows.any(1) if is_rounded else None)
        ends = torch.stack([rows * low, rows * high, torch.zeros_like(rows)])
        least, most = ends.amin(0).sum(1) // weights.divisor, ends.amax(0).sum(1) // weights.divisor
        unit, rounding = None, None
        if isinstance(operation, RequantizedProduct):
            rounding = product_rounding(operation, weights.divisor, least, most)
            if rounding is None:
                weights = weights_of(operation.weight)
                rounding = product_rounding(operation, weights.divisor, least, most, in_float32=True)
        elif isinstance(operation, RealProduct) and is_last:
            rounding, unit = score_rounding(operation, weights, least, most)
        elif isinstance(operation, RealProduct):
            rounding = real_rounding(operation, weights)
        if weights.largest_sum * max(-low, high) * weights.divisor >= INT32:
            raise InputError(f"{name}: sums of so many products can exceed 32 bits, which can't be written to C")
        sums = RowOperation("multiply_row", {"divisor": weights.divisor})
        return cls(name, operation, weights, rounding or sums, unit)

    def suits_planes(self, code_bits: int) -> bool:
        """Whether codes of so many bits are better read as bit planes."""
        channels = int(self.operation.weight.shape[1])
        few_products = self.weights.bits < BYTE and self.weights.bits * code_bits <= MOST_PRODUCTS
        return few_products and channels >= LEAST_CHANNELS

    def step(self, layer: str, given: Stored, made: Stored) -> Step:
        """The call; `layer` is what its constants are called by."""
        geometry = Geometry.of(self.operation.weight, self.operation.convolution)
        laid = self._laid_out(given, made, geometry, f"{layer}_seen")
        in_bytes = laid.weights.dtype == np.int8
        weights = table("int8_t" if in_bytes else "uint32_t", f"{layer}_weights", laid.weights)
        fields = geometry.fields() | {
            "weight_bits": self.weights.bits,
            "row_bytes" if in_bytes else "row_words": laid.row,
            "slope": self.weights.slope,
            "start": self.weights.start,
            "bytes" if in_bytes else "indices": f"{layer}_weights",
        }
        bits = f"{self.weights.bits} bit{'s' * (self.weights.bits > 1)}"
        return Step(
            [
                f"{self.name}: {geometry}, {given.channels} to {made.channels} channels, weights of {bits}, codes "
                f"{given.low} to {given.high}"
            ],
            laid.kernel,
            [f"&{layer}"],
            [given],
            made,
            [weights, structure("convolution", layer, fields)],
            laid.weights.nbytes,
            made.size * self.weights.indices.shape[1],
            seen=laid.seen,
            window_words=laid.row * given.planes if laid.kernel == "convolve_planes" else 0,
            window_bytes=laid.row if laid.kernel == "convolve_bytes" else 0,
            window_codes=laid.row * (WORD // self.weights.bits) if laid.kernel == "convolve_packed" else 0,
        )

    def _laid_out(self, given: Stored, made: Stored, geometry: Geometry, name: str) -> LaidOut:
        """Weights for the kernel that suits what is given; `name` is what is gathered for a row of windows."""
        if given.kind == PLANES and geometry.can_be_gathered_by_rows():
            lines = self.weights.lines(geometry.kernel)
            words = lines.shape[-1] // geometry.kernel[1]
            seen = Stored(name, words, 1, geometry.columns(made), LINES, given.low, given.high)
            return LaidOut("convolve_lines", lines.shape[-1], self._outputs_last(lines), seen)
        if given.kind == PLANES:
            planes = self.weights.planes()
            return LaidOut("convolve_planes", planes.shape[-1], self._outputs_last(planes))
        if self.weights.bits == BYTE:
            return self._laid_out_bytes(given, made, geometry, name)
        packed = self.weights.packed()
        return LaidOut("convolve_packed", packed.shape[-1], packed)

    def _laid_out_bytes(self, given: Stored, made: Stored, geometry: Geometry, name: str) -> LaidOut:
        """As they are, with zeros behind each output's. Those of columns are in their order."""
        weights = self.weights.indices.astype(np.int8)
        terms = weights.shape[1]
        if geometry.is_of_vectors(given):
            return LaidOut("convolve_columns", terms, weights)
        padding = -terms % AT_ONCE if terms > AT_ONCE else 0
        kernel, seen = "convolve_bytes", None
        if given.outside and geometry.kernel[0] > 1 and geometry.can_be_gathered_by_rows():
            size = geometry.kernel[0] * given.channels
            width = geometry.columns(made) + -(-padding // size)  # the last window reads behind its columns
            kernel, seen = "convolve_columns", Stored(name, size, 1, width, given.kind, given.low, given.high)
            weights = weights.reshape(-1, *geometry.kernel, given.channels).swapaxes(1, 2).reshape(-1, terms)
        return LaidOut(kernel, terms + padding, np.pad(weights, [(0, 0), (0, padding)]), seen)

    def _outputs_last(self, weights: np.ndarray) -> np.ndarray:
        """Weights (outputs, ...) group by group, so that what all outputs of a group multiply stands together."""
        groups = self.operation.convolution.get("groups", 1)
        return np.moveaxis(weights.reshape(groups, -1, *weights.shape[1:]), 1, -1)
