"""A graph of modules and functions in real numbers as ONNX: what all files of ours are written by."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.formats.onnx_parts import Shapes, convolution_attributes, description, function_name
from pdqat.deployment.formats.onnx_pooling import FUNCTIONS as POOL_FUNCTIONS
from pdqat.deployment.formats.onnx_pooling import POOLS, pooling
from pdqat.deployment.integer.assembly import OWN_NAME
from pdqat.deployment.integer.graph import OUTPUT, function_of_numbers, is_without_effect
from pdqat.deployment.integer.operations import Clip, ScaleShift
from pdqat.errors import InputError

OPSET, IR_VERSION = 21, 10
INPUT = "input"

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise InputError("ONNX files need onnx: pip install 'pdqat[export]'") from error


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
        nn.Unflatten: "_flatten",
        **dict.fromkeys(POOLS, "_pool"),
    }
    """How each kind is written, by the method's name: another format may write it otherwise."""
    FUNCTIONS: ClassVar[dict[str, str]] = {
        "mean": "_mean",
        "flatten": "_reshaped",
        "add": "_add",
        "iadd": "_add",
        "add_": "_add",
        "view": "_reshaped",
        "reshape": "_reshaped",
        "squeeze": "_squeezed",
        **dict.fromkeys(POOL_FUNCTIONS, "_pooled"),
    }

    def __init__(self, module: fx.GraphModule, example: tuple[Tensor, ...]) -> None:
        self._module = module
        self._modules = dict(module.named_modules())
        self._own_names = {str(node.target): node.meta.get(OWN_NAME, str(node.target)) for node in module.graph.nodes}
        """Of modules, as the model calls them: for messages."""
        (self._example,) = example
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}
        """By what they hold: equal ones are stored once."""
        self._names: dict[fx.Node, str] = {}
        self.shapes: dict[str, Tensor] = {}
        """Operation to what it makes of the example."""
        self.made: dict[str, Any] = {}
        """The same for every node of the graph."""

    def model(self) -> "onnx.ModelProto":
        """The whole file."""
        interpreter = Shapes(self._module)
        interpreter.run(self._example)
        self.shapes, self.made = interpreter.by_target, interpreter.by_name
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
        domains = [helper.make_opsetid(*domain) for domain in self.DOMAINS]
        model = helper.make_model(graph, opset_imports=domains, ir_version=self.IR, producer_name="pdqat")
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise InputError(f"the model can't be written as ONNX: {str(error).splitlines()[0]}") from error
        return model

    def _write(self, node: fx.Node) -> str:
        if node.op == "get_attr":
            return self._constant(getattr(self._module, str(node.target)))
        given = [self._names[source] for source in node.all_input_nodes]
        if is_without_effect(node, self._modules):
            return given[0]
        clip = function_of_numbers(node, self._modules)
        if clip is not None:
            return self._clip("", clip, given[0])
        if node.op == "call_module":
            module = self._modules[str(node.target)]
            method = next((name for kind, name in self.MODULES.items() if isinstance(module, kind)), None)
            if method is None:
                raise InputError(
                    f"{self._own_names[str(node.target)]}: {type(module).__name__} can't be written to ONNX"
                )
            return str(getattr(self, method)(str(node.target), module, given[0]))
        name = function_name(node)
        if not isinstance(self.made[node.name], Tensor):
            return ""  # a size, which is written where it is used
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
        limits = ["" if limit is None else self._scalar(limit) for limit in (module.low, module.high)]
        return self._emit("Clip", [given, *limits])

    def _norm(self, name: str, module: _BatchNorm, given: str) -> str:
        if module.running_mean is None:
            raise InputError(
                f"{self._own_names[name]}: {type(module).__name__} without statistics can't be written to ONNX"
            )
        weight = torch.ones_like(module.running_mean) if module.weight is None else module.weight
        bias = torch.zeros_like(module.running_mean) if module.bias is None else module.bias
        tensors = (weight, bias, module.running_mean, module.running_var)
        constants = [self._constant(tensor) for tensor in tensors]
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

    def _flatten(self, name: str, _: nn.Flatten | nn.Unflatten, given: str) -> str:
        return self._reshape(self._own_names.get(name, name), self.shapes[name], given)

    def _pool(self, name: str, module: nn.Module, given: str) -> str:
        kind, attributes = pooling(self._own_names.get(name, name), module)
        return self._emit(kind, [given], **attributes)

    def _pooled(self, node: fx.Node, given: list[str]) -> str:
        arguments = [argument for argument in node.args if not isinstance(argument, fx.Node)]
        named = {name: argument for name, argument in node.kwargs.items() if name not in ("input", "return_indices")}
        return self._pool(node.name, POOL_FUNCTIONS[function_name(node)](*arguments, **named), given[0])

    def _mean(self, node: fx.Node, given: list[str]) -> str:
        dims: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        keep = node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 else False)
        dims = [dims] if isinstance(dims, int) else dims
        axes = [] if dims is None else [self._constant(list(dims), np.int64)]
        return self._emit("ReduceMean", [given[0], *axes], keepdims=int(bool(keep)))

    def _reshaped(self, node: fx.Node, given: list[str]) -> str:
        return self._reshape(node.name, self.made[node.name], given[0])

    def _reshape(self, name: str, result: Tensor, given: str) -> str:
        """Samples stay apart, since a file takes any number of them."""
        if result.dim() < 2 or len(result) != len(self._example):
            raise InputError(f"{name}: a reshape that mixes samples can't be written to ONNX")
        if result.dim() == 2:
            return self._emit("Flatten", [given], axis=1)
        return self._emit("Reshape", [given, self._constant([0, *result.shape[1:]], np.int64)])  # 0 keeps the samples

    def _squeezed(self, node: fx.Node, given: list[str]) -> str:
        before = self.made[node.all_input_nodes[0].name]
        dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        if not isinstance(dim, int) or dim % before.dim() == 0 or before.shape[dim] != 1:
            raise InputError(f"{node.name}: ONNX gets a squeeze of one dimension of size 1, not the first")
        return self._emit("Squeeze", [given[0], self._constant([dim % before.dim()], np.int64)])

    def _add(self, node: fx.Node, _: list[str]) -> str:
        if len(node.args) != 2 or node.kwargs:
            raise InputError(f"{node.name}: an addition with alpha can't be written to ONNX")
        return self._emit("Add", [self._operand(term) for term in node.args])

    def _operand(self, term: Any) -> str:
        return self._names[term] if isinstance(term, fx.Node) else self._scalar(float(term))

    def _per_channel(self, vector: Tensor, dims: int) -> str:
        return self._constant(vector.reshape(1, -1, *[1] * (dims - 2)))
