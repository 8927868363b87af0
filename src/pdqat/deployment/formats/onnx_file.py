"""A frozen network as a QCDQ ONNX file: QuantizeLinear, Clip and DequantizeLinear around ordinary convolutions.

Runtimes fuse that pattern into integer kernels. All codes stand on a scale of 1: a DequantizeLinear only changes their
type, and the requantisation M (acc + B) is the scale M of the weights and the integer bias B. A float bias would be
rounded silently, so there is none.
"""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, fx, nn

from pdqat.deployment.formats.onnx_graph import GraphWriter
from pdqat.deployment.formats.onnx_parts import convolution_attributes, description
from pdqat.deployment.formats.packing import BYTE, UINT4, pack, places
from pdqat.deployment.integer.operations import (
    SUMMAND_ZERO,
    Clip,
    IntegerProduct,
    LookUp,
    ProductSums,
    RealProduct,
    RequantizedProduct,
    ToCodes,
    ToReal,
)
from pdqat.deployment.integer.sum_operations import PooledSums, RequantizedSum, SumsToCodes
from pdqat.errors import InputError

try:
    import onnx
    from ml_dtypes import uint4
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise InputError("ONNX files need onnx and ml-dtypes: pip install 'pdqat[export]'") from error


FOUR = 4
"""Channels that ONNX Runtime's fastest kernel reads at a time."""


def to_onnx(module: fx.GraphModule, example: tuple[Tensor, ...], pack: bool = False) -> "onnx.ModelProto":
    """The file of a frozen module, or of a plain one in real numbers."""
    return Writer(module, example, pack).model()


def read_onnx(path: Path) -> "onnx.ModelProto":
    """A stranger's file, which can't name others, and holds one plain graph as ours do.

    Runtimes take a time that doubles with every graph inside a graph.
    """
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises its own kinds
        raise InputError(f"{path} is damaged or not an ONNX file") from error
    attributes = [attribute for node in model.graph.node for attribute in node.attribute]
    inner = any(attribute.HasField("g") or attribute.graphs for attribute in attributes)
    if model.functions or model.training_info or inner:
        raise InputError(f"{path} was not exported here: it holds graphs or functions inside its graph")
    lists = any(attribute.tensors or attribute.sparse_tensors for attribute in attributes)
    if lists or model.graph.sparse_initializer or any(attribute.HasField("sparse_tensor") for attribute in attributes):
        raise InputError(f"{path} was not exported here: it holds sparse tensors or lists of them")
    tensors = [*model.graph.initializer, *(attribute.t for attribute in attributes)]
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors):
        raise InputError(f"{path} was not exported here: it keeps weights in other files")
    return model


def with_codes(path: Path, module: fx.GraphModule, example: tuple[Tensor, ...]) -> "onnx.ModelProto":
    """A file of a frozen module with all codes as outputs too, called codes/OPERATION."""
    model = read_onnx(path)
    for packed in (False, True):
        writer = Writer(module, example, packed)
        if [node.op_type for node in model.graph.node] == [node.op_type for node in writer.model().graph.node]:
            break
    else:
        raise InputError(f"{path} was not exported from this network under this plan: its operations are others")
    for name, (tensor, zero) in writer.codes.items():
        constant = numpy_helper.from_array(np.array(zero, np.int32), f"codes/{name}/zero")
        model.graph.initializer.append(constant)
        cast = helper.make_node("Cast", [tensor], [f"codes/{name}/cast"], to=TensorProto.INT32)
        shifted = helper.make_node("Sub", [f"codes/{name}/cast", constant.name], [f"codes/{name}"])
        model.graph.node.extend([cast, shifted])
        model.graph.output.append(description(f"codes/{name}", TensorProto.INT32, writer.shapes[name]))
    return model


class Writer(GraphWriter):
    """With the operations on codes."""

    MODULES: ClassVar[dict[type[nn.Module], str]] = {
        RequantizedProduct: "_requantized",
        ProductSums: "_product_sums",
        RealProduct: "_real_product",
        SumsToCodes: "_sums_to_codes",
        RequantizedSum: "_requantized_sum",
        PooledSums: "_pooled_sums",
        ToCodes: "_to_codes",
        ToReal: "_to_real",
        LookUp: "_look_up",
        **GraphWriter.MODULES,
    }

    def __init__(self, module: fx.GraphModule, example: tuple[Tensor, ...], pack: bool = False) -> None:
        super().__init__(module, example)
        self._pack = pack
        self._emitted: set[str] = set()
        self.codes: dict[str, tuple[str, int]] = {}
        """Operation to the tensor of its codes, and their zero point."""
        self._stored: dict[str, tuple[str, str]] = {}
        """Codes as real numbers to themselves as bytes, and their zero point."""
        self._above: dict[str, int] = {}
        """Sums to what they are too large by: the zero points of their summands."""
        self._summands: dict[str, str] = {}
        """Summands and sums of them to the bytes of all of them, side by side, where these are written."""
        self._terms: dict[str, list[str]] = {}
        """Sums to what is added."""

    def _round(
        self,
        name: str,
        values: str,
        low: int,
        high: int,
        is_summand: bool,
        scale: float = 1.0,
        shape: str | None = None,
    ) -> str:
        """Values to codes, of another shape if it is given, and these as real numbers on a scale of 1.

        Summands are unsigned, above a zero point: ONNX Runtime takes a convolution for one of integers only if what
        it reads and what it makes have the same type. They are cast, not dequantised, and their zero point stays in:
        OpenVINO would add dequantised ones in 8 bits, and saturate.
        """
        zero = SUMMAND_ZERO if is_summand else 0
        dtype = np.uint8 if low + zero >= 0 else np.int8
        limits = np.iinfo(dtype)
        stored_zero = self._constant(zero, dtype)
        codes = self._emit("QuantizeLinear", [values, self._scalar(scale), stored_zero])
        if low + zero > limits.min or high + zero < limits.max:
            ends = [self._constant(end + zero, dtype) for end in (low, high)]
            codes = self._emit("Clip", [codes, *ends])
        codes = self._shaped(codes, shape)
        self.codes[name] = (codes, zero)
        if not is_summand:
            real = self._emit("DequantizeLinear", [codes, self._scalar(1.0), stored_zero])
            self._stored[real] = codes, stored_zero
            return real
        real = self._as_float(codes)
        self._above[real], self._summands[real] = zero, codes
        return real

    def _as_float(self, integers: str) -> str:
        return self._emit("Cast", [integers], to=TensorProto.FLOAT)

    def _product(self, name: str, module: IntegerProduct, codes: str, scale: Tensor, offset: Tensor | None) -> str:
        """The convolution on codes; a linear layer is one on images of one pixel, one for every vector."""
        weight = module.weight
        linear = weight.dim() == 2
        if linear:
            weight = weight[:, :, None, None]
            # On integers: behind DequantizeLinear ONNX Runtime would move it, and mix up signed and unsigned bytes.
            stored_codes, stored_zero = self._stored[codes]
            if self._shape_behind(name, module):
                stored_codes = self._shaped(stored_codes, self._constant([-1, weight.shape[1]], np.int64))
            pixels = self._emit("Unsqueeze", [stored_codes, self._constant([2, 3], np.int64)])
            codes = self._emit("DequantizeLinear", [pixels, self._scalar(1.0), stored_zero])
        elif self._wants_whole_fours(module):
            codes, weight = self._in_whole_fours(codes, weight)
        kept: tuple[Tensor, Any, int] = (weight, np.int8, 0) if module.signed else (weight.int() + 128, np.uint8, 128)
        stored = [kept] if offset is None else [kept, (offset, np.int32, 0)]
        factors = self._constant(scale)
        inputs = [codes]
        for tensor, dtype, zero in stored:
            zeros = self._constant(np.full(len(weight), zero), dtype)
            inputs.append(self._emit("DequantizeLinear", [self._weights(tensor, dtype), factors, zeros], axis=0))
        output = self._emit("Conv", inputs, **convolution_attributes(module.convolution, weight))
        return self._emit("Squeeze", [output, self._constant([2, 3], np.int64)]) if linear else output

    def _wants_whole_fours(self, module: IntegerProduct) -> bool:
        """Whether it is a convolution of images with signed weights that stay signed bytes with zeros among them."""
        options, weight = module.convolution, module.weight
        is_plain = weight.dim() == 4 and options["groups"] == 1 and weight.shape[1] > 1
        return module.signed and is_plain and not (self._pack and pack(weight.numpy()) is not None)

    def _in_whole_fours(self, codes: str, weight: Tensor) -> tuple[str, Tensor]:
        """With channels of zeros behind the others: ONNX Runtime's kernel for signed weights reads four at a time."""
        missing = -weight.shape[1] % FOUR
        if not missing:
            return codes, weight
        stored, zero = self._stored[codes]
        ends = self._constant([*[0] * 5, missing, 0, 0], np.int64)
        padded = self._emit("Pad", [stored, ends, zero], mode="constant")
        none = weight.new_zeros(len(weight), missing, *weight.shape[2:])
        return self._emit("DequantizeLinear", [padded, self._scalar(1.0), zero]), torch.cat([weight, none], 1)

    def _shape_behind(self, name: str, module: IntegerProduct) -> str | None:
        """Of what a linear layer makes of more than one vector a sample, which are pixels of their own meanwhile."""
        made = self._file.made
        if module.weight.dim() > 2 or self.shapes[name].dim() <= 2:
            return None
        return self._file.shape(made.small, made.large)

    def _shaped(self, tensor: str, shape: str | None) -> str:
        return tensor if shape is None else self._emit("Reshape", [tensor, shape])

    def _weights(self, tensor: Tensor, dtype: Any) -> str:
        """Integers as they are, or packed."""
        return self._packed(tensor) if self._pack and dtype is np.int8 else self._constant(tensor, dtype)

    def _packed(self, tensor: Tensor) -> str:
        packed = pack(tensor.numpy())
        if packed is None:
            return self._constant(tensor)
        if packed.bits == UINT4:
            indices = self._emit("Cast", [self._constant(packed.stored, uint4)], to=TensorProto.INT32)
        else:
            bytes_ = self._emit("Cast", [self._constant(packed.stored[:, None])], to=TensorProto.INT32)
            shifted = self._emit("Div", [bytes_, self._constant(places(packed.bits)[None], np.int32)])
            indices = self._emit("Mod", [shifted, self._constant(1 << packed.bits, np.int32)])
            size = int(np.prod(packed.shape))
            indices = self._emit("Reshape", [indices, self._constant([-1], np.int64)])
            if size % (BYTE // packed.bits):
                ends = [self._constant([end], np.int64) for end in (0, size)]
                indices = self._emit("Slice", [indices, *ends])
            indices = self._emit("Reshape", [indices, self._constant(packed.shape, np.int64)])
        if packed.counts is None:
            return self._emit("Gather", [self._constant(packed.table), indices])
        values = self._emit("Gather", [self._constant(packed.table, np.int32), indices])
        counts = self._constant(packed.counts.reshape(-1, *[1] * (len(packed.shape) - 1)), np.int32)
        return self._emit("Cast", [self._emit("Mul", [values, counts])], to=TensorProto.INT8)

    def _requantized(self, name: str, module: RequantizedProduct, given: str) -> str:
        product = self._product(name, module, given, module.multiplier, module.offset)
        shape = self._shape_behind(name, module)
        return self._round(name, product, module.low, module.high, module.is_summand, shape=shape)

    def _transposed(self, module: IntegerProduct, codes: str) -> str:
        """A transposed convolution on whole numbers, for which runtimes have no integer kernel."""
        weight = module.inputs_first(module.weight)
        stored = self._emit("DequantizeLinear", [self._weights(weight, np.int8), self._scalar(1.0)])
        options = convolution_attributes(module.convolution, weight)
        options["output_padding"] = list(module.convolution["output_padding"])
        return self._emit("ConvTranspose", [codes, stored], **options)

    def _look_up(self, _: str, module: LookUp, indices: str) -> str:
        rows = self._as_float(self._emit("Gather", [self._weights(module.table, np.int8), indices]))
        if module.scale.dim() == 0:
            return self._emit("Mul", [rows, self._constant(module.scale)])
        return self._emit("Mul", [rows, self._emit("Gather", [self._constant(module.scale[:, None]), indices])])

    def _product_sums(self, name: str, module: IntegerProduct, given: str) -> str:
        if module.is_transposed:
            return self._as_float(self._emit("Cast", [self._transposed(module, given)], to=TensorProto.INT32))
        product = self._product(name, module, given, torch.ones(len(module.weight)), None)
        # Through whole numbers and back: else runtimes fold the scale into the weights, and sums are rounded.
        sums = self._as_float(self._emit("Cast", [product], to=TensorProto.INT32))
        return self._shaped(sums, self._shape_behind(name, module))

    def _real_product(self, name: str, module: RealProduct, given: str) -> str:
        real = self._product_sums(name, module, given)
        dims = module.weight.dim()
        scaled = self._emit("Mul", [real, self._per_channel(module.scale, dims)])
        return self._emit("Add", [scaled, self._per_channel(module.bias, dims)])

    def _sums_to_codes(self, name: str, module: SumsToCodes, given: str) -> str:
        assert self._above.get(given, 0) == module.above
        dims = self.shapes[name].dim() if module.channel_dim == 1 else 2
        scaled = self._emit("Mul", [given, self._per_channel(module.scale, dims)])
        shifted = self._emit("Add", [scaled, self._per_channel(module.shift, dims)])
        return self._round(name, shifted, module.low, module.high, module.is_summand)

    def _requantized_sum(self, name: str, module: RequantizedSum, given: str) -> str:
        """A convolution of one pixel on all summands side by side, in which each has the same weight."""
        assert self._above.get(given, 0) == module.above
        channels, summands = len(module.factor), module.above // SUMMAND_ZERO
        factors, zero = self._constant(module.multiplier), self._constant(SUMMAND_ZERO, np.uint8)
        # Weights are made when the file is loaded, since most of them are zero.
        column, row = (-1, 1, 1, 1), (1, -1, 1, 1)
        own = np.arange(channels).reshape(column), (np.arange(channels * summands) % channels).reshape(row)
        of_channel = self._emit("Equal", [self._constant(places, np.int32) for places in own])
        weights = self._emit(
            "Where", [of_channel, self._constant(module.factor.reshape(column), np.int32), self._constant(0, np.int32)]
        )
        inputs = [self._emit("DequantizeLinear", [self._side_by_side(given), self._scalar(1.0), zero])]
        for integers, dtype in (
            (self._emit("Cast", [weights], to=TensorProto.INT8), np.int8),
            (self._constant(module.offset), np.int32),
        ):
            zeros = self._constant(np.zeros(channels), dtype)
            inputs.append(self._emit("DequantizeLinear", [integers, factors, zeros], axis=0))
        total = self._emit("Conv", inputs, kernel_shape=[1, 1])
        return self._round(name, total, module.low, module.high, module.is_summand)

    def _side_by_side(self, total: str) -> str:
        """The bytes of all summands of a sum; those of a longer sum begin with those of a shorter one."""
        if total not in self._summands:
            parts = [self._side_by_side(term) for term in self._terms[total]]
            self._summands[total] = self._emit("Concat", parts, axis=1)
        return self._summands[total]

    def _pooled_sums(self, _: str, module: PooledSums, given: str) -> str:
        pooled = self._file.reduce("ReduceSum", given, module.dims, module.keepdim)
        above = self._above.get(given, 0)
        if above:
            self._above[pooled] = above * module.count
        return pooled

    def _to_codes(self, name: str, module: ToCodes, given: str) -> str:
        scaled = given if module.factor == 1 else self._emit("Mul", [given, self._scalar(module.factor)])
        return self._round(name, scaled, module.low, module.high, module.is_summand, module.step)

    def _to_real(self, _: str, module: ToReal, given: str) -> str:
        return self._emit("Mul", [self._from_zero(given), self._scalar(module.step)])

    def _from_zero(self, sums: str) -> str:
        """Sums without their zero points."""
        above = self._above.get(sums, 0)
        if above and f"{sums}/from_zero" not in self._emitted:
            self._emitted.add(self._emit("Sub", [sums, self._scalar(above)], output=f"{sums}/from_zero"))
        return f"{sums}/from_zero" if above else sums

    def _clip(self, name: str, module: Clip, given: str) -> str:
        above = self._above.get(given, 0)
        if not above:
            return super()._clip(name, module, given)
        limits = (None if limit is None else limit + above for limit in (module.low, module.high))
        clipped = super()._clip(name, Clip(*limits), given)
        self._above[clipped] = above
        return clipped

    def _add(self, node: fx.Node, given: list[str]) -> str:
        total = super()._add(node, given)
        terms = [self._operand(term) for term in node.args[:2]]
        above = sum(self._above.get(term, 0) for term in terms)
        if above:
            self._above[total], self._terms[total] = above, terms
        return total
