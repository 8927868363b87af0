"""What functions are written with: nodes and constants of an ONNX graph, and sizes that follow the batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdqat.errors import InputError

try:
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise InputError("ONNX files need onnx: pip install 'pdqat[export]'") from error

TYPES = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.int64: TensorProto.INT64,
    torch.int32: TensorProto.INT32,
    torch.int16: TensorProto.INT16,
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
    torch.bool: TensorProto.BOOL,
}
"""Those of numbers that a file can hold."""
AXES_AS_INPUT = 18
"""From this opset on all reductions take their axes as an input."""


@dataclass(frozen=True, eq=False)
class Value:
    """What a node makes: its tensor in the file, and what it is for the example and for one sample more.

    Of several results (the parts of a split) each is a tuple. A size that follows the batch has no tensor: its name is
    empty, and it is computed where it is used.
    """

    name: Any
    small: Any
    large: Any
    is_constant: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """For the example."""
        return tuple(self.small.shape)

    @property
    def dims(self) -> int:
        """How many dimensions it has."""
        return int(self.small.dim())

    def follows_batch(self, dim: int) -> bool:
        """Whether this dimension's size does."""
        return bool(self.small.shape[dim] != self.large.shape[dim])


class Emitter:
    """Collects nodes and constants.

    batch    the example's number of samples
    opset    of the file
    """

    def __init__(self, batch: int, opset: int) -> None:
        self._batch, self.opset = batch, opset
        self.nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}
        """By what they hold: equal ones are stored once."""
        self._batch_size: str | None = None
        self.batch_input = ""
        """The input whose first dimension is the batch."""
        self.node = ""
        self.made = Value("", None, None)
        """The node that is being written, and what it makes."""

    @property
    def constants(self) -> list[Any]:
        """Those that some node reads."""
        read = {name for node in self.nodes for name in node.input}
        return [constant for constant in self._constants.values() if constant.name in read]

    def drop_unread(self, outputs: Sequence[str]) -> None:
        """Leave out the nodes whose results neither others read nor are outputs."""
        read, kept = set(outputs), []
        for node in reversed(self.nodes):
            if any(name in read for name in node.output):
                read |= set(node.input)
                kept.append(node)
        self.nodes = kept[::-1]

    def refuse(self, what: str) -> InputError:
        """Of the node that is being written."""
        return InputError(f"{self.node}: {what} can't be written to ONNX")

    def emit(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """A node of one output, whose name comes back."""
        name = output or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"node{len(self.nodes)}", **attributes))
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A stored tensor."""
        array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
        array = np.array(array, dtype, order="C")  # a single number stays without dimensions
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"constant{len(self._constants)}")
        return str(self._constants[key].name)

    def scalar(self, value: float) -> str:
        """A real number."""
        return self.constant(value, np.float32)

    def whole(self, *numbers: int) -> str:
        """Whole numbers in a row, as shapes and axes are."""
        return self.constant(list(numbers), np.int64)

    def size(self, small: int, large: int) -> str:
        """One number in a row: a size that is a linear function of the batch's."""
        if small == large:
            return self.whole(small)
        slope = large - small
        shift = small - slope * self._batch
        if self._batch_size is None:
            shape = self.emit("Shape", [self.batch_input])
            self._batch_size = self.emit("Gather", [shape, self.whole(0)])
        size = self._batch_size if slope == 1 else self.emit("Mul", [self._batch_size, self.whole(slope)])
        return size if shift == 0 else self.emit("Add", [size, self.whole(shift)])

    def sizes(self, small: Sequence[int], large: Sequence[int]) -> str:
        """A whole shape."""
        if tuple(small) == tuple(large):
            return self.whole(*small)
        return self.emit("Concat", [self.size(*pair) for pair in zip(small, large, strict=True)], axis=0)

    def reshape(self, name: str, before: tuple[Any, Any], after: tuple[Any, Any]) -> str:
        """To another shape; both for the example and for one sample more."""
        small, large = (tuple(tensor.shape) for tensor in after)
        if (small, large) == tuple(tuple(tensor.shape) for tensor in before):
            return name
        following = [dim for dim, pair in enumerate(zip(small, large, strict=True)) if pair[0] != pair[1]]
        if following == [0] and len(small) == 2 and before[0].dim() > 1 and before[0].shape[0] == small[0]:
            return self.emit("Flatten", [name], axis=1)
        return self.emit("Reshape", [name, self.shape(*after)])

    def shape(self, small: Tensor, large: Tensor) -> str:
        """That of a tensor as Reshape reads it, wherever the batch stands; for the example and one sample more."""
        sizes = list(zip(small.shape, large.shape, strict=True))
        if sum(before != after for before, after in sizes) > 1:
            return self.sizes(small.shape, large.shape)
        return self.whole(*(before if before == after else -1 for before, after in sizes))

    def apart(self, name: str) -> str:
        """The same real numbers, behind an operation across which nothing is moved.

        OpenVINO takes a scale in front of a norm of samples for one without an effect, and forgets the norm's epsilon.
        """
        return self.emit("Max", [name, self.scalar(torch.finfo(torch.float32).min)])

    def reduce(self, kind: str, name: str, axes: Sequence[int], keep: bool) -> str:
        """A sum, mean or largest number over some dimensions."""
        if kind == "ReduceSum" or self.opset >= AXES_AS_INPUT:
            return self.emit(kind, [name, self.whole(*axes)], keepdims=int(keep))
        return self.emit(kind, [name], axes=list(axes), keepdims=int(keep))

    def cast(self, name: str, before: torch.dtype, after: torch.dtype) -> str:
        """To another type, where it is one."""
        if before == after:
            return name
        if after not in TYPES:
            raise self.refuse(f"the type {after}")
        return self.emit("Cast", [name], to=TYPES[after])

    def operand(self, value: Any, dtype: torch.dtype | None = None) -> str:
        """A tensor, a number or a size in a type, else in that of what is made."""
        dtype = self.made.small.dtype if dtype is None else dtype
        if not isinstance(value, Value):
            return self.constant(torch.as_tensor(value).to(dtype))
        if isinstance(value.small, Tensor):
            return self.cast(value.name, value.small.dtype, dtype)
        size = self.emit("Squeeze", [self.size(value.small, value.large), self.whole(0)])
        return self.cast(size, torch.int64, dtype)
