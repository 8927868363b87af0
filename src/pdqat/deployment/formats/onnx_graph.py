"""A graph of modules and functions in real numbers as ONNX: what all files of ours are written by.

Only the number of samples is free in a file. What follows it is learnt by running the graph twice, on the example and
on one sample more: sizes that are the same in both are constants, and so is every value that no input reaches.
"""

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from pdqat.batches import tensors_in
from pdqat.deployment.formats.onnx_emitter import TYPES, Emitter, Value
from pdqat.deployment.formats.onnx_functions import KNOWN
from pdqat.deployment.formats.onnx_parts import description, function_name
from pdqat.deployment.integer.functions import check_in_place, in_functions, reached
from pdqat.deployment.integer.graph import function_of_numbers, is_without_effect
from pdqat.deployment.integer.made import Made
from pdqat.deployment.integer.names import INPUT, OUTPUT, OWN_NAME
from pdqat.deployment.integer.operations import Clip, ScaleShift
from pdqat.errors import InputError

OPSET, IR_VERSION = 21, 10

try:
    import onnx
    from onnx import helper
except ImportError as error:
    raise InputError("ONNX files need onnx: pip install 'pdqat[export]'") from error


class GraphWriter:
    """Follows a module's graph and writes each operation.

    example    an input for each placeholder; those with as many rows as the first one follow the batch
    """

    DOMAINS: tuple[tuple[str, int], ...] = (("", OPSET),)
    IR = IR_VERSION
    MODULES: ClassVar[dict[type[nn.Module], str]] = {
        Clip: "_clip",
        ScaleShift: "_scale_shift",
        _BatchNorm: "_norm",
        _InstanceNorm: "_norm",
    }
    """How each kind is written, by the method's name: another format may write it otherwise."""
    FUNCTIONS: ClassVar[dict[str, str]] = {"add": "_add"}
    """Functions that another format may write otherwise; all others are in the vocabulary."""

    def __init__(self, module: fx.GraphModule, example: Tensor | tuple[Tensor, ...]) -> None:
        self._module = in_functions(module)
        self._modules = dict(self._module.named_modules())
        nodes = list(self._module.graph.nodes)
        self._own_names = {str(node.target): node.meta.get(OWN_NAME, str(node.target)) for node in nodes}
        """Of modules, as the model calls them: for messages."""
        self._examples = (example,) if isinstance(example, Tensor) else tuple(example)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        if len(self._inputs) != len(self._examples):
            raise InputError(f"the graph has {len(self._inputs)} inputs, the example {len(self._examples)}")
        self._batch = len(self._examples[0])
        self._file = Emitter(self._batch, dict(self.DOMAINS)[""])
        self._names: dict[fx.Node, Any] = {}
        self._values: dict[fx.Node, Value] = {}
        self._reached = reached(self._module.graph)
        self.shapes: dict[str, Tensor] = {}
        """Operation to what it makes of the example."""

    @torch.no_grad()
    def model(self) -> "onnx.ModelProto":
        """The whole file."""
        small, large = self._run(self._examples), self._run(tuple(self._one_more(each) for each in self._examples))
        self.shapes = {str(node.target): made for node, made in small.items() if isinstance(made, Tensor)}
        inputs, outputs = [], []
        for node in self._module.graph.nodes:
            self._file.node = node.meta.get(OWN_NAME, node.name)
            self._file.made = Value("", small[node], large[node])
            if node.op == "output":
                for name, source in _outputs(node).items():
                    self._emit("Identity", [self._names[source]], output=name)
                    outputs.append(self._description(name, self._values[source]))
                continue
            if node.op == "placeholder":
                self._names[node] = INPUT if len(self._inputs) == 1 else str(node.target)
                self._file.batch_input = self._file.batch_input or self._names[node]
                inputs.append(self._description(self._names[node], Value("", small[node], large[node])))
            else:
                self._names[node] = self._written(node, small[node], large[node])
            constant = node not in self._reached and _equal(small[node], large[node])
            self._values[node] = Value(self._names[node], small[node], large[node], constant)
        both = {described.name for described in inputs} & {described.name for described in outputs}
        if both:
            raise InputError(f"an input and an output of the file are both called {sorted(both)[0]!r}")
        self._file.drop_unread([described.name for described in outputs])
        graph = helper.make_graph(self._file.nodes, "pdqat", inputs, outputs, self._file.constants)
        domains = [helper.make_opsetid(*domain) for domain in self.DOMAINS]
        model = helper.make_model(graph, opset_imports=domains, ir_version=self.IR, producer_name="pdqat")
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise InputError(f"the model can't be written as ONNX: {str(error).splitlines()[0]}") from error
        return model

    def _run(self, examples: tuple[Tensor, ...]) -> dict[fx.Node, Any]:
        made = Made(self._module)
        try:
            made.run(*(example.clone() for example in examples))  # functions may change them in place
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"the graph can't be run on {len(examples[0])} samples: {reason}") from error
        return made.by_node

    def _one_more(self, example: Tensor) -> Tensor:
        follows = example.dim() > 0 and len(example) == self._batch
        return torch.cat([example, example[-1:]]) if follows else example

    def _description(self, name: str, value: Value) -> Any:
        if value.small.dtype not in TYPES:
            raise InputError(f"{name}: a file can't hold numbers of type {value.small.dtype}")
        follows = [value.follows_batch(dim) for dim in range(value.dims)]
        if any(follows[1:]):
            raise InputError(f"{name}: the samples must be the first dimension of an input or output")
        same = bool(follows and follows[0] and value.shape[0] == self._batch)
        if any(follows) and not same:
            sizes = [None, *value.shape[1:]]
            return helper.make_tensor_value_info(name, TYPES[value.small.dtype], sizes)
        return description(name, TYPES[value.small.dtype], value.small, same)

    def _written(self, node: fx.Node, small: Any, large: Any) -> Any:
        """The node's tensor: stored, where no input reaches it, else computed."""
        if not tensors_in(small):
            return ""  # a size, which is written where it is used
        if node in self._reached:
            check_in_place(node)
            return self._write(node)
        if not isinstance(small, Tensor):
            return tuple(self._of_sizes(node, *pair) for pair in zip(small, large, strict=True))
        return self._of_sizes(node, small, large)

    def _of_sizes(self, node: fx.Node, small: Tensor, large: Tensor) -> str:
        """A value of sizes and constants; repeated, where it follows the batch and is the same for all samples."""
        if _equal(small, large):
            return self._constant(large)
        following = [dim for dim in range(small.dim()) if small.shape[dim] != large.shape[dim]]
        one = large
        for dim in following:
            one = one.narrow(dim, 0, 1)
        if following and torch.equal(one.expand_as(large), large) and torch.equal(one.expand_as(small), small):
            return self._emit("Expand", [self._constant(one), self._file.sizes(small.shape, large.shape)])
        if function_name(node) in KNOWN:
            return str(self._write(node))
        raise InputError(f"{node.name}: numbers that hang on the batch size can't be written to ONNX")

    def _write(self, node: fx.Node) -> Any:
        given = [self._names[source] for source in node.all_input_nodes]
        if is_without_effect(node, self._modules):
            return given[0]
        clip = function_of_numbers(node, self._modules)
        if clip is not None and self._file.made.small.dtype != torch.int64:  # codes are smaller
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
        if name in self.FUNCTIONS:
            return getattr(self, self.FUNCTIONS[name])(node, given)
        return self._function(node)

    def _function(self, node: fx.Node) -> Any:
        """By the vocabulary."""
        name = function_name(node)
        if name not in KNOWN:
            raise InputError(f"{self._file.node}: the function {name or node.target} can't be written to ONNX")
        args = fx.node.map_arg(node.args, self._argument)
        named = fx.node.map_arg(node.kwargs, self._argument)
        kwargs = {key: part for key, part in named.items() if part is not None and key != "_stacklevel"}
        first = [kwargs.pop(key) for key in ("input", "self") if key in kwargs]
        try:
            call = inspect.signature(KNOWN[name]).bind(self._file, *first, *args, **kwargs)
        except TypeError as error:
            raise self._file.refuse(f"the function {name} with these arguments") from error
        return KNOWN[name](*call.args, **call.kwargs)

    def _argument(self, node: fx.Node) -> Any:
        """What a function is given for a node: its value, or a size that is always the same."""
        value = self._values[node]
        return value if tensors_in(value.small) or value.small != value.large else value.small

    def _emit(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        return self._file.emit(kind, inputs, output, **attributes)

    def _constant(self, value: Any, dtype: Any = None) -> str:
        return self._file.constant(value, dtype)

    def _scalar(self, value: float) -> str:
        return self._file.scalar(value)

    def _scale_shift(self, name: str, module: ScaleShift, given: str) -> str:
        dims = self.shapes[name].dim()
        scaled = self._emit("Mul", [given, self._per_channel(module.scale, dims)])
        return self._emit("Add", [scaled, self._per_channel(module.shift, dims)])

    def _clip(self, _: str, module: Clip, given: str) -> str:
        if (module.low, module.high) == (0, None):
            return self._emit("Relu", [given])
        limits = ["" if limit is None else self._scalar(limit) for limit in (module.low, module.high)]
        return self._emit("Clip", [given, *limits])

    def _norm(self, name: str, module: Any, given: str) -> str:
        """A batch norm with its statistics, or an instance norm."""
        if isinstance(module, _BatchNorm) and module.running_mean is None:
            raise InputError(
                f"{self._own_names[name]}: {type(module).__name__} without statistics can't be written to ONNX"
            )
        channels = self.shapes[name].shape[1]
        weight = torch.ones(channels) if module.weight is None else module.weight
        bias = torch.zeros(channels) if module.bias is None else module.bias
        if module.running_mean is None:
            ends = [self._constant(tensor) for tensor in (weight, bias)]
            return self._emit("InstanceNormalization", [self._file.apart(given), *ends], epsilon=module.eps)
        constants = [self._constant(tensor) for tensor in (weight, bias, module.running_mean, module.running_var)]
        return self._emit("BatchNormalization", [given, *constants], epsilon=module.eps)

    def _add(self, node: fx.Node, _: list[str]) -> str:
        return str(self._function(node))

    def _operand(self, term: Any) -> str:
        return str(self._names[term]) if isinstance(term, fx.Node) else self._scalar(float(term))

    def _per_channel(self, vector: Tensor, dims: int) -> str:
        return self._constant(vector.reshape(1, -1, *[1] * (dims - 2)))


def _outputs(node: fx.Node) -> dict[str, fx.Node]:
    made: Any = node.args[0]
    return dict(made) if isinstance(made, dict) else {OUTPUT: made}


def _equal(small: Any, large: Any) -> bool:
    if not isinstance(small, Tensor):
        return False
    return small is large or torch.equal(small, large)  # what is stored may hold what is not a number
