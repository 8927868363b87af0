"""A graph of modules and functions in real numbers as ONNX: what all files of ours are written by."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.errors import InputError
from pdqat.export.graph import WITHOUT_EFFECT, function_of_numbers
from pdqat.export.operations import Clip, ScaleShift
from pdqat.export.runtimes import OUTPUT

OPSET, IR_VERSION = 21, 10
INPUT = "input"

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise InputError("ONNX files need onnx: pip install 'pdqat[export]'") from error


class _Shapes(fx.Interpreter):
    """Remembers what every operation makes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.made: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        self.made[str(n.target)] = made
        return made


class GraphWriter:
    """Follows a module's graph and writes each operation."""

    DOMAINS: tuple[tuple[str, int], ...] = (("", OPSET),)
    IR = IR_VERSION
    MODULES: ClassVar[dict[type[nn.Module], str]] = {
        Clip: "_clip",
        ScaleShift: "_scale_shift",
        nn.Conv1d: "_convolution",
        nn.Conv2d: "_convolution",
        nn.Conv3d: "_convolution",
        nn.Linear: "_linear",
        _BatchNorm: "_norm",
        nn.Flatten: "_flatten",
        nn.MaxPool2d: "_pool",
        nn.AvgPool2d: "_pool",
        nn.AdaptiveAvgPool2d: "_global_pool",
    }
    """How each kind is written, by the method's name: another format may write it otherwise."""
    FUNCTIONS: ClassVar[dict[str, str]] = {
        "mean": "_mean",
        "flatten": "_flattened",
        "add": "_add",
        "iadd": "_add",
        "add_": "_add",
    }

    def __init__(self, module: fx.GraphModule, example: Tensor) -> None:
        self._module = module
        self._modules = dict(module.named_modules())
        self._example = example
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}
        """By what they hold: equal ones are stored once."""
        self._names: dict[fx.Node, str] = {}
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
        inputs = [description(INPUT, TensorProto.FLOAT, self._example)]
        outputs = [description(OUTPUT, TensorProto.FLOAT, self.shapes["output"])]
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
            method = next((each for kind, each in self.MODULES.items() if isinstance(module, kind)), None)
            if method is None:
                raise InputError(f"{node.target}: {type(module).__name__} can't be written to ONNX")
            return str(getattr(self, method)(str(node.target), module, given[0]))
        name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
        if name not in self.FUNCTIONS:
            raise InputError(f"{node.name}: the function {name or node.target} can't be written to ONNX")
        return str(getattr(self, self.FUNCTIONS[name])(node, given))

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

    def _scale_shift(self, name: str, module: ScaleShift, given: str) -> str:
        dims = self.shapes[name].dim()
        scaled = self._emit("Mul", [given, self._per_channel(module.scale, dims)])
        return self._emit("Add", [scaled, self._per_channel(module.shift, dims)])

    def _clip(self, _: str, module: Clip, given: str) -> str:
        if (module.low, module.high) == (0, None):
            return self._emit("Relu", [given])
        limits = ["" if each is None else self._scalar(each) for each in (module.low, module.high)]
        return self._emit("Clip", [given, *limits])

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

    def _add(self, node: fx.Node, _: list[str]) -> str:
        if len(node.args) != 2 or node.kwargs:
            raise InputError("an addition with alpha can't be written to ONNX")
        return self._emit("Add", [self._operand(each) for each in node.args])

    def _operand(self, each: Any) -> str:
        return self._names[each] if isinstance(each, fx.Node) else self._scalar(float(each))

    def _per_channel(self, vector: Tensor, dims: int) -> str:
        return self._constant(vector.reshape(1, -1, *[1] * (dims - 2)))


def description(name: str, kind: int, like: Tensor) -> Any:
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
