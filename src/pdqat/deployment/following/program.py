"""Programs: what torch.export sees of a forward, as a graph in which every layer and norm is one call of its module."""

import io
import logging
import operator
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, OutputKind

from pdqat.deployment.following.calls import like, outputs_of, tensors_of
from pdqat.deployment.following.cleaning import cleaned, is_left_out
from pdqat.deployment.integer.layers import Operation
from pdqat.deployment.integer.names import OWN_NAME
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.own_forward import OwnForward

PREFIX = "net.model."
"""Of the model's names in a program."""


@torch.library.custom_op("pdqat::layer", mutates_args=())
def _layer(input: Tensor, made: Tensor, name: str) -> Tensor:  # noqa: A002, ARG001 - what a graph is to show
    """Stands for a layer or norm; what it makes has the shape of `made`."""
    return made.clone()


@_layer.register_fake
def _(input: Tensor, made: Tensor, name: str) -> Tensor:  # noqa: A002, ARG001
    return torch.empty_like(made)


class _Called(nn.Module):
    """A network called with its inputs one by one, which returns the tensors of its output one by one."""

    def __init__(self, net: Network, inputs: Any, names: list[str]) -> None:
        super().__init__()
        self.net = net
        self._inputs, self._names = inputs, names

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        outputs = outputs_of(self.net, like(self._inputs, tensors))
        self._names[:] = outputs
        return tuple(outputs.values())


def program_of(net: Network, inputs: Any, given: Sequence[str]) -> fx.GraphModule:
    """The graph of a network in evaluation mode, for any number of samples; inputs get the names that are given."""
    outputs: list[str] = []
    called, tensors = _Called(net, inputs, outputs), tuple(tensors_of(inputs))
    batch = torch.export.Dim("batch")
    sizes = (tuple({0: batch} for _ in tensors),)
    try:
        with net.state.standing_in(_stand_in), _silent():
            program = torch.export.export(called, tensors, dynamic_shapes=sizes, strict=False)
            if any(_is_mutable(node) and _in_new_memory(node) is None for node in program.graph.nodes):
                program = program.run_decompositions({})  # which takes torch longer than all else
    except InputError:
        raise
    except Exception as error:  # it raises many kinds
        raise InputError(
            f"can't follow the model's graph: {_reason(error)}; its forward may not decide by the numbers in tensors, "
            "nor by how many samples there are"
        ) from error
    return _Rewriting(net, program, given, outputs).module()


@contextmanager
def _silent() -> Iterator[None]:
    """Without what torch warns and logs of itself: it prints whole graphs."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _stand_in(module: Any, given: Tensor) -> Tensor:
    """A layer or norm as one operation, and what it takes to know its shape."""
    made = module._operate(given, module.rows, None) if isinstance(module, PrecisionLayer) else given
    result: Tensor = _layer(given, made, module.name)
    return result


class _Rewriting:
    """A program's graph, written again as calls of modules, functions and constants."""

    def __init__(
        self, net: Network, program: torch.export.ExportedProgram, given: Sequence[str], outputs: Sequence[str]
    ) -> None:
        self._modules = {
            module.name: module for module in net.model.modules() if isinstance(module, PrecisionLayer | PrecisionNorm)
        }
        self._program, self._given, self._outputs = program, iter(given), outputs
        self._graph = fx.Graph()
        self._root: dict[str, Any] = {}
        self._made: dict[fx.Node, Any] = {}
        self._kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}

    def module(self) -> fx.GraphModule:
        """All of it."""
        for node in self._program.graph.nodes:
            if node.op == "output":
                self._output(node)
            elif node.op == "placeholder":
                self._made[node] = self._input(node)
            elif not is_left_out(node):
                self._made[node] = self._written(node, self._program.graph_module)
        return cleaned(fx.GraphModule(self._root, self._graph))

    def _region(self, module: fx.GraphModule, given: Sequence[Any]) -> Any:
        """What a part of the model makes that runs without gradients or autocast, written as if it did not."""
        inputs = iter(given)
        for node in module.graph.nodes:
            if node.op == "output":
                return fx.map_arg(node.args[0], lambda source: self._made[source])
            if node.op == "placeholder":
                self._made[node] = next(inputs)
            elif not is_left_out(node):
                self._made[node] = self._written(node, module)
        raise AssertionError("a graph ends in its output")

    def _written(self, node: fx.Node, inside: fx.GraphModule) -> Any:
        """A node of a program, or of a region inside of it."""
        if node.op == "get_attr":
            value = getattr(inside, str(node.target))
            return value if isinstance(value, fx.GraphModule) else self._constant(node.name, value)
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: self._made[source])
        if node.target is operator.getitem and isinstance(args[0], tuple | list):
            return operator.getitem(args[0], args[1])
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self._region(*_region_of(node, args))
        if node.target is torch.ops.pdqat.layer.default:
            name = str(args[2])
            module = self._modules[name]
            self._root[name] = Operation(module) if isinstance(module, OwnForward) else module
            made = self._graph.call_module(name, (args[0],))
        elif node.target is torch.ops.aten.sym_size.int:
            made = self._graph.call_method("size", args)
        else:
            target = _in_new_memory(node) if _is_mutable(node) else node.target
            made = self._graph.create_node(node.op, target, args, kwargs, node.name)
        made.meta = {OWN_NAME: _owner(node), "val": node.meta.get("val")}
        return made

    def _input(self, node: fx.Node) -> fx.Node:
        spec = self._kinds[node.name]
        if spec.kind is InputKind.USER_INPUT:
            made = self._graph.placeholder(next(self._given))
            made.meta = {"val": node.meta.get("val")}
            return made
        held = self._program.state_dict | self._program.constants
        assert spec.target is not None
        return self._constant(node.name, held[spec.target])

    def _constant(self, name: str, value: Any) -> fx.Node:
        self._root[name] = value.detach() if isinstance(value, Tensor) else value
        made = self._graph.get_attr(name)
        made.meta = {"val": value}
        return made

    def _output(self, node: fx.Node) -> None:
        specs = self._program.graph_signature.output_specs
        results = [
            self._made[result]
            for result, spec in zip(node.args[0], specs, strict=True)  # type: ignore[arg-type]
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        self._graph.output(results[0] if len(results) == 1 else dict(zip(self._outputs, results, strict=True)))


def _region_of(node: fx.Node, args: Sequence[Any]) -> tuple[fx.GraphModule, Sequence[Any]]:
    """A region of a program and what it is given; refuses those that are more than a part without gradients."""
    name = node.target.__name__  # type: ignore[union-attr]
    place = next((place for place, arg in enumerate(args) if isinstance(arg, fx.GraphModule)), None)
    is_autocast = name == "wrap_with_autocast"
    if place is None or not (name == "wrap_with_set_grad_enabled" or (is_autocast and _is_off(*args[:3]))):
        what = "autocast" if is_autocast else f"the operation {name}"
        raise InputError(f"{_owner(node)}: {what} can't be exported")
    return args[place], args[place + 1 :]


def _is_off(device: str, _: Any, enabled: bool) -> bool:
    """Whether autocast does nothing where a model is exported."""
    return not enabled or device != "cpu"


def _is_mutable(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _in_new_memory(node: fx.Node) -> Any:
    """The same operation in new memory, where one in place changes what nobody else reads; else None."""
    source, target = node.args[0], node.target
    assert isinstance(target, torch._ops.OpOverload)
    packet = getattr(torch.ops.aten, target.overloadpacket.__name__.removesuffix("_"), None)
    if target.overloadpacket.__name__ == "dropout_" and not node.args[2]:
        return torch.ops.aten.dropout.default  # in evaluation it changes nothing
    if not isinstance(source, fx.Node) or source.op != "call_function" or len(source.users) > 1:
        return None
    schema = getattr(source.target, "_schema", None)
    is_view = schema is None or any(result.alias_info is not None for result in schema.returns)
    if is_view and not (_is_mutable(source) and _in_new_memory(source) is not None):
        return None
    return getattr(packet, target._overloadname, None)


def _owner(node: fx.Node) -> str:
    """The module in which an operation is called; the operation's name outside of all."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path = str(stack[-1][0]) if stack else ""
    return path.removeprefix(PREFIX) if path.startswith(PREFIX) else node.name


def _reason(error: Exception) -> str:
    """What torch has to say, in one line, with the line of the model's code if it names one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    raised = [number for number, line in enumerate(lines) if line.startswith("The following call raised")]
    return f"{lines[0]} at {', '.join(lines[raised[0] + 1 : raised[0] + 3])}" if raised else lines[0]
