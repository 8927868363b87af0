"""A frozen network as a QCDQ ONNX file: QuantizeLinear, Clip and DequantizeLinear around ordinary convolutions.

Runtimes fuse that pattern into integer kernels. All codes stand on a scale of 1: a DequantizeLinear only changes their
type, and the requantisation M (acc + B) is the scale M of the weights and the integer bias B. A float bias would be
rounded silently, so there is none.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.errors import InputError
from pdqat.export.graph import WITHOUT_EFFECT, function_of_numbers
from pdqat.export.operations import (
    SUMMAND_ZERO,
    Clip,
    IntegerProduct,
    ProductSums,
    RealProduct,
    RequantizedProduct,
    ScaleShift,
    SumsToCodes,
    ToCodes,
    ToReal,
)
from pdqat.export.packing import BYTE, UINT4, pack, places
from pdqat.export.runtimes import OUTPUT

OPSET, IR_VERSION = 21, 10
INPUT = "input"

try:
    import onnx
    from ml_dtypes import uint4
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise InputError("ONNX files need onnx: pip install 'pdqat[export]'") from error


def to_onnx(module: fx.GraphModule, example: Tensor, pack: bool = False) -> "onnx.ModelProto":
    """The file of a frozen module, or of a plain one in real numbers."""
    return Writer(module, example, pack).model()


def read_onnx(path: Path) -> "onnx.ModelProto":
    """A stranger's file, which can't name others."""
    try:
        return onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises its own kinds
        raise InputError(f"{path} is damaged or not an ONNX file") from error


def with_codes(path: Path, module: fx.GraphModule, example: Tensor) -> "onnx.ModelProto":
    """A file of a frozen module with all codes as outputs too, called codes/OPERATION."""
    model = read_onnx(path)
    for packed in (False, True):
        writer = Writer(module, example, packed)
        if [each.op_type for each in model.graph.node] == [each.op_type for each in writer.model().graph.node]:
            break
    else:
        raise InputError(f"{path} was not exported from this run under this plan: its operations are others")
    for name, (tensor, zero) in writer.codes.items():
        constant = numpy_helper.from_array(np.array(zero, np.int32), f"codes/{name}/zero")
        model.graph.initializer.append(constant)
        cast = helper.make_node("Cast", [tensor], [f"codes/{name}/cast"], to=TensorProto.INT32)
        shifted = helper.make_node("Sub", [f"codes/{name}/cast", constant.name], [f"codes/{name}"])
        model.graph.node.extend([cast, shifted])
        model.graph.output.append(_description(f"codes/{name}", TensorProto.INT32, writer.shapes[name]))
    return model


class _Shapes(fx.Interpreter):
    """Remembers what every operation makes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.made: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        self.made[str(n.target)] = made
        return made


class Writer:
    """Follows a frozen module's graph and writes each operation."""

    DOMAINS: tuple[tuple[str, int], ...] = (("", OPSET),)
    IR = IR_VERSION

    def __init__(self, module: fx.GraphModule, example: Tensor, pack: bool = False) -> None:
        self._module = module
        self._modules = dict(module.named_modules())
        self._pack = pack
        self._example = example
        self._nodes: list[Any] = []
        self._emitted: set[str] = set()
        self._constants: dict[tuple[Any, ...], Any] = {}
        """By what they hold: equal ones are stored once."""
        self._names: dict[fx.Node, str] = {}
        self.codes: dict[str, tuple[str, int]] = {}
        """Operation to the tensor of its codes, and their zero point."""
        self._above: dict[str, int] = {}
        """Sums to what they are too large by: the zero points of their summands."""
        self.shapes: dict[str, Tensor] = {}
        """Operation to what it makes of the example."""

    def model(self) -> "onnx.ModelProto":
        """The whole file."""
        interpreter = _Shapes(self._module)
        interpreter.run(self._example)
        self.shapes = interpreter.made
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                self._names[node] = INPUT
            elif node.op == "output":
                self._emit("Identity", [self._names[node.args[0]]], output=OUTPUT)
            else:
                self._names[node] = self._write(node)
        inputs = [_description(INPUT, TensorProto.FLOAT, self._example)]
        outputs = [_description(OUTPUT, TensorProto.FLOAT, self.shapes["output"])]
        graph = helper.make_graph(self._nodes, "pdqat", inputs, outputs, list(self._constants.values()))
        domains = [helper.make_opsetid(*each) for each in self.DOMAINS]
        model = helper.make_model(graph, opset_imports=domains, ir_version=self.IR, producer_name="pdqat")
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise InputError(f"the model can't be written as ONNX: {str(error).splitlines()[0]}") from error
        return model

    def _write(self, node: fx.Node) -> str:
        if node.op == "get_attr":
            return self._constant(getattr(self._module, str(node.target)))
        given = [self._names[each] for each in node.all_input_nodes]
        clip = function_of_numbers(node, self._modules)
        if clip is not None:
            return self._clip("", clip, given[0])
        if node.op == "call_module":
            module = self._modules[str(node.target)]
            if isinstance(module, WITHOUT_EFFECT):
                return given[0]
            for kind, write in _MODULES.items():
                if isinstance(module, kind):  # by its name, since another format may write it otherwise
                    return str(getattr(self, write.__name__)(str(node.target), module, given[0]))
            raise InputError(f"{node.target}: {type(module).__name__} can't be written to ONNX")
        name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
        write_function = _FUNCTIONS.get(name)
        if write_function is None:
            raise InputError(f"{node.name}: the function {name or node.target} can't be written to ONNX")
        return write_function(self, node, given)

    def _emit(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        name = output or f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name=f"node{len(self._nodes)}", **attributes))
        return name

    def _constant(self, value: Any, dtype: Any = None) -> str:
        array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
        array = np.array(array, dtype, order="C")  # a single number stays without dimensions
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"constant{len(self._constants)}")
        return str(self._constants[key].name)

    def _scalar(self, value: float) -> str:
        return self._constant(value, np.float32)

    def _round(self, name: str, values: str, low: int, high: int, is_summand: bool, scale: float = 1.0) -> str:
        """Values to codes, and these as real numbers on a scale of 1.

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
            ends = [self._constant(each + zero, dtype) for each in (low, high)]
            codes = self._emit("Clip", [codes, *ends])
        self.codes[name] = (codes, zero)
        if not is_summand:
            return self._emit("DequantizeLinear", [codes, self._scalar(1.0), stored_zero])
        real = self._as_float(codes)
        self._above[real] = zero
        return real

    def _as_float(self, integers: str) -> str:
        return self._emit("Cast", [integers], to=TensorProto.FLOAT)

    def _product(self, name: str, module: IntegerProduct, codes: str, scale: Tensor, offset: Tensor | None) -> str:
        """The convolution on codes; a linear layer is one on images of one pixel."""
        weight = module.weight
        linear = weight.dim() == 2
        if linear and self.shapes[name].dim() != 2:
            raise InputError(f"{name} can't be exported: a quantised linear layer on more than one vector a sample")
        if linear:
            weight = weight[:, :, None, None]
            codes = self._emit("Unsqueeze", [codes, self._constant([2, 3], np.int64)])
        kept: tuple[Tensor, Any, int] = (weight, np.int8, 0) if module.signed else (weight.int() + 128, np.uint8, 128)
        stored = [kept] if offset is None else [kept, (offset, np.int32, 0)]
        factors = self._constant(scale)
        inputs = [codes]
        for tensor, dtype, zero in stored:
            zeros = self._constant(np.full(len(weight), zero), dtype)
            inputs.append(self._emit("DequantizeLinear", [self._stored(tensor, dtype), factors, zeros], axis=0))
        output = self._emit("Conv", inputs, **convolution_attributes(module.convolution, weight))
        return self._emit("Squeeze", [output, self._constant([2, 3], np.int64)]) if linear else output

    def _stored(self, tensor: Tensor, dtype: Any) -> str:
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
                ends = [self._constant([each], np.int64) for each in (0, size)]
                indices = self._emit("Slice", [indices, *ends])
            indices = self._emit("Reshape", [indices, self._constant(packed.shape, np.int64)])
        if packed.counts is None:
            return self._emit("Gather", [self._constant(packed.table), indices])
        values = self._emit("Gather", [self._constant(packed.table, np.int32), indices])
        counts = self._constant(packed.counts.reshape(-1, *[1] * (len(packed.shape) - 1)), np.int32)
        return self._emit("Cast", [self._emit("Mul", [values, counts])], to=TensorProto.INT8)

    def _requantized(self, name: str, module: RequantizedProduct, given: str) -> str:
        product = self._product(name, module, given, module.multiplier, module.offset)
        return self._round(name, product, module.low, module.high, module.is_summand)

    def _product_sums(self, name: str, module: IntegerProduct, given: str) -> str:
        product = self._product(name, module, given, torch.ones(len(module.weight)), None)
        # Through whole numbers and back: else runtimes fold the scale into the weights, and sums are rounded.
        return self._as_float(self._emit("Cast", [product], to=TensorProto.INT32))

    def _real_product(self, name: str, module: RealProduct, given: str) -> str:
        real = self._product_sums(name, module, given)
        dims = module.weight.dim()
        scaled = self._emit("Mul", [real, self._per_channel(module.scale, dims)])
        return self._emit("Add", [scaled, self._per_channel(module.bias, dims)])

    def _sums_to_codes(self, name: str, module: SumsToCodes, given: str) -> str:
        assert self._above.get(given, 0) == module.above
        dims = self.shapes[name].dim()
        scaled = self._emit("Mul", [given, self._per_channel(module.scale, dims)])
        shifted = self._emit("Add", [scaled, self._per_channel(module.shift, dims)])
        return self._round(name, shifted, module.low, module.high, module.is_summand)

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

    def _scale_shift(self, name: str, module: ScaleShift, given: str) -> str:
        dims = self.shapes[name].dim()
        scaled = self._emit("Mul", [given, self._per_channel(module.scale, dims)])
        return self._emit("Add", [scaled, self._per_channel(module.shift, dims)])

    def _clip(self, _: str, module: Clip, given: str) -> str:
        above = self._above.get(given, 0)
        if not above and (module.low, module.high) == (0, None):
            return self._emit("Relu", [given])
        limits = ["" if each is None else self._scalar(each + above) for each in (module.low, module.high)]
        clipped = self._emit("Clip", [given, *limits])
        if above:
            self._above[clipped] = above
        return clipped

    def _norm(self, _: str, module: _BatchNorm, given: str) -> str:
        if module.running_mean is None or module.weight is None:
            raise InputError(
                f"{type(module).__name__} without statistics or affine parameters can't be written to ONNX"
            )
        tensors = (module.weight, module.bias, module.running_mean, module.running_var)
        constants = [self._constant(each) for each in tensors]
        return self._emit("BatchNormalization", [given, *constants], epsilon=module.eps)

    def _convolution(self, _: str, module: Any, given: str) -> str:
        options = {name: getattr(module, name) for name in ("stride", "padding", "dilation", "groups")}
        bias = [] if module.bias is None else [self._constant(module.bias)]
        return self._emit(
            "Conv", [given, self._constant(module.weight), *bias], **convolution_attributes(options, module.weight)
        )

    def _linear(self, _: str, module: nn.Linear, given: str) -> str:
        product = self._emit("MatMul", [given, self._constant(module.weight.T)])
        return product if module.bias is None else self._emit("Add", [product, self._constant(module.bias)])

    def _flatten(self, _: str, module: nn.Flatten, given: str) -> str:
        if (module.start_dim, module.end_dim) != (1, -1):
            raise InputError(
                f"Flatten from {module.start_dim} to {module.end_dim} can't be written to ONNX, 1 to -1 can"
            )
        return self._emit("Flatten", [given], axis=1)

    def _pool(self, _: str, module: Any, given: str) -> str:
        kind = "MaxPool" if isinstance(module, nn.MaxPool2d) else "AveragePool"
        unusual = module.ceil_mode or getattr(module, "divisor_override", None)
        if unusual or getattr(module, "dilation", 1) not in (1, (1, 1)):
            raise InputError(f"{type(module).__name__} with ceil_mode, dilation or a divisor can't be written to ONNX")
        size, stride, padding = (_pair(getattr(module, name)) for name in ("kernel_size", "stride", "padding"))
        extra: dict[str, Any] = {} if kind == "MaxPool" else {"count_include_pad": int(module.count_include_pad)}
        return self._emit(kind, [given], kernel_shape=size, strides=stride, pads=[*padding, *padding], **extra)

    def _global_pool(self, _: str, module: nn.AdaptiveAvgPool2d, given: str) -> str:
        if module.output_size not in (1, (1, 1)):
            raise InputError(f"AdaptiveAvgPool2d to {module.output_size} can't be written to ONNX; to 1 it can")
        return self._emit("GlobalAveragePool", [given])

    def _mean(self, node: fx.Node, given: list[str]) -> str:
        dims: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        keep = node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 else False)
        dims = [dims] if isinstance(dims, int) else dims
        axes = [] if dims is None else [self._constant(list(dims), np.int64)]
        return self._emit("ReduceMean", [given[0], *axes], keepdims=int(bool(keep)))

    def _flattened(self, node: fx.Node, given: list[str]) -> str:
        start = node.kwargs.get("start_dim", node.args[1] if len(node.args) > 1 else 0)
        if start != 1 or node.kwargs.get("end_dim", node.args[2] if len(node.args) > 2 else -1) != -1:
            raise InputError("flatten can be written to ONNX from dimension 1 to the last only")
        return self._emit("Flatten", [given[0]], axis=1)

    def _add(self, node: fx.Node, given: list[str]) -> str:
        if len(node.args) != 2 or node.kwargs:
            raise InputError("an addition with alpha can't be written to ONNX")
        operands = [self._operand(each) for each in node.args]
        total = self._emit("Add", operands)
        above = sum(self._above.get(each, 0) for each in operands)
        if above:
            self._above[total] = above
        return total

    def _operand(self, each: Any) -> str:
        return self._names[each] if isinstance(each, fx.Node) else self._scalar(float(each))

    def _per_channel(self, vector: Tensor, dims: int) -> str:
        return self._constant(vector.reshape(1, -1, *[1] * (dims - 2)))


_MODULES: dict[type[nn.Module], Callable[[Writer, str, Any, str], str]] = {
    RequantizedProduct: Writer._requantized,
    ProductSums: Writer._product_sums,
    RealProduct: Writer._real_product,
    SumsToCodes: Writer._sums_to_codes,
    ToCodes: Writer._to_codes,
    ToReal: Writer._to_real,
    ScaleShift: Writer._scale_shift,
    Clip: Writer._clip,
    nn.Conv1d: Writer._convolution,
    nn.Conv2d: Writer._convolution,
    nn.Conv3d: Writer._convolution,
    nn.Linear: Writer._linear,
    _BatchNorm: Writer._norm,
    nn.Flatten: Writer._flatten,
    nn.MaxPool2d: Writer._pool,
    nn.AvgPool2d: Writer._pool,
    nn.AdaptiveAvgPool2d: Writer._global_pool,
}
_FUNCTIONS: dict[Any, Callable[[Writer, fx.Node, list[str]], str]] = {
    "mean": Writer._mean,
    "flatten": Writer._flattened,
    "add": Writer._add,
    "iadd": Writer._add,
    "add_": Writer._add,
}


def _description(name: str, kind: int, like: Tensor) -> Any:
    """Of an input or output of any batch size."""
    return helper.make_tensor_value_info(name, kind, ["batch", *like.shape[1:]])


def convolution_attributes(options: dict[str, Any], weight: Tensor) -> dict[str, Any]:
    """ONNX's names for a convolution's options."""
    dims = weight.dim() - 2
    stride, padding, dilation = (
        _tuple(options.get(name, default), dims) for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    return {
        "kernel_shape": list(weight.shape[2:]),
        "strides": stride,
        "pads": [*padding, *padding],
        "dilations": dilation,
        "group": options.get("groups", 1),
    }


def _tuple(value: Any, dims: int) -> list[int]:
    return [value] * dims if isinstance(value, int) else list(value)


def _pair(value: Any) -> list[int]:
    return _tuple(value, 2)
