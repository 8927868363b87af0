"""Graphs of functions, as symbolic tracing and torch.export give them, and their files in both runtimes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import openvino
import torch
from torch import Tensor, fx, nn

from pdqat.deployment.formats.onnx_graph import GraphWriter
from sound_runtimes import openvino_is_sound

Functions = Mapping[str, Callable[..., Any]]


class Together(nn.Module):
    """Several functions of the same inputs, with the modules that they call."""

    def __init__(self, functions: Functions, modules: Mapping[str, nn.Module] | None = None) -> None:
        super().__init__()
        self.functions = functions
        self.parts = nn.ModuleDict(modules or {})

    def forward(self, *inputs: Tensor) -> dict[str, Any]:
        """By name."""
        made = {name: function(*inputs) for name, function in self.functions.items()}
        return made | {name: module(inputs[0]) for name, module in self.parts.items()}


class _OfOne(nn.Module):
    def __init__(self, module: Together) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> dict[str, Any]:
        return self.module(x)  # type: ignore[no-any-return]


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not isinstance(m, Together | nn.Sequential)


def symbolic(module: Together) -> fx.GraphModule:
    """By symbolic tracing, of functions of one input."""
    root = _OfOne(module)
    return fx.GraphModule(root, _Tracer().trace(root))


def exported(module: nn.Module, example: tuple[Tensor, ...]) -> fx.GraphModule:
    """By torch.export with any number of samples; parameters and constants are attributes."""
    batch = torch.export.Dim("batch", min=2)
    shapes = {"inputs": tuple({0: batch} for _ in example)}
    program = torch.export.export(module.eval(), example, dynamic_shapes=shapes, strict=False)
    graph_module, signature = program.graph_module, program.graph_signature
    stored = {**program.state_dict, **program.constants}
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    for node in list(graph_module.graph.nodes):
        if "_assert" in str(node.target):
            graph_module.graph.erase_node(node)
        if node.op == "placeholder" and node.name in targets:
            attribute = f"stored_{node.name}"
            graph_module.register_buffer(attribute, stored[targets[node.name]].detach())
            with graph_module.graph.inserting_before(node):
                node.replace_all_uses_with(graph_module.graph.get_attr(attribute))
            graph_module.graph.erase_node(node)
        if node.op == "output":
            with torch.no_grad():
                names = module(*example)
            node.args = (dict(zip(names, node.args[0], strict=True)),)
    graph_module.graph.eliminate_dead_code()
    return fx.GraphModule(graph_module, graph_module.graph)


class File:
    """A graph's file in the runtimes that are sound."""

    def __init__(self, graph: fx.GraphModule, example: tuple[Tensor, ...]) -> None:
        content = GraphWriter(graph, example).model().SerializeToString()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._names = [described.name for described in self._session.get_outputs()]
        if not openvino_is_sound():
            return
        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        self._compiled = core.compile_model(core.read_model(content), "CPU", settings)

    def run(self, inputs: tuple[Tensor, ...]) -> dict[str, dict[str, Tensor]]:
        """Runtime, output, numbers."""
        names = [described.name for described in self._session.get_inputs()]
        feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        made = dict(zip(self._names, map(torch.from_numpy, self._session.run(self._names, feed)), strict=True))
        if not openvino_is_sound():
            return {"onnxruntime": made}
        results = self._compiled(feed)
        ports = [(name, port) for port in self._compiled.outputs for name in port.get_names()]
        numbers = {name: torch.from_numpy(np.array(results[port])) for name, port in ports}
        return {"onnxruntime": made, "openvino": {name: numbers[name] for name in self._names}}
