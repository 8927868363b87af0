"""The simulated network as a QONNX file, for FPGA tools: a float graph with Quant nodes on weights and activations.

Weights stand in the file already quantised, so that neither DoReFa's tanh nor a tie decides anything there. Opset and
IR version are old ones, which those tools read.
"""

import operator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.deployable import Deployable
from pdqat.deployment.formats.onnx_file import read_onnx
from pdqat.deployment.formats.onnx_graph import GraphWriter
from pdqat.deployment.formats.onnx_parts import convolution_attributes
from pdqat.deployment.formats.quant_form import Form, form_of_codes, form_of_weights
from pdqat.deployment.integer.functions import function_name
from pdqat.deployment.integer.graph import (
    Codes,
    codes_of,
    function_of_numbers,
)
from pdqat.deployment.integer.layers import convolution, is_transposed, layer_or_norm
from pdqat.deployment.witness import QuantizedTensor
from pdqat.errors import InputError
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.summand import SUMMAND_BITS, Summand
from pdqat.precision import BitPlan
from pdqat.quantizers import Quantizer

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError as error:
    raise InputError("QONNX files need onnx: pip install 'pdqat[export]'") from error

DOMAIN = "qonnx.custom_op.general"


def to_qonnx(model: Deployable) -> "onnx.ModelProto":
    """The network under its plan, for one sample of the example's shape; what can't be written is an InputError."""
    file, _ = _written(model)
    for described in (*file.graph.input, *file.graph.output):
        described.type.tensor_type.shape.dim[0].dim_value = 1  # the tools want a size, not the name of one
    return file


def with_codes(path: Path, model: Deployable) -> tuple["onnx.ModelProto", list[QuantizedTensor], list[QuantizedTensor]]:
    """A file with what its Quant nodes make of activations as outputs too, and which those are: read and added."""
    file = read_onnx(path)
    wanted, writer = _written(model)
    if [node.op_type for node in file.graph.node] != [node.op_type for node in wanted.graph.node]:
        raise InputError(f"{path} was not exported from this network under this plan: its operations are others")
    for name in dict.fromkeys(tensor.output for tensor in (*writer.read, *writer.added)):
        file.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return file, writer.read, writer.added


@torch.no_grad()
def _written(model: Deployable) -> tuple["onnx.ModelProto", "_QonnxWriter"]:
    with model.net.under(model.plan):
        writer = _QonnxWriter(model.followed.module, model.read_example, model.plan)
        return writer.model(), writer


class _QonnxWriter(GraphWriter):
    DOMAINS = (("", 13), (DOMAIN, 1))
    IR = 7

    def __init__(self, module: fx.GraphModule, example: tuple[Tensor, ...], plan: BitPlan) -> None:
        super().__init__(module, example)
        self._plan = plan
        self._quantized: dict[tuple[Any, ...], str] = {}
        self.read: list[QuantizedTensor] = []
        self.added: list[QuantizedTensor] = []
        """What layers read, and what is added, call by call."""

    def _write(self, node: fx.Node) -> Any:
        if node.op == "get_attr":
            return self._constant(operator.attrgetter(str(node.target))(self._module))
        given = [self._names[source] for source in node.all_input_nodes]
        clip = function_of_numbers(node, self._modules)
        if clip is not None:
            is_relu = clip.low == 0 and (clip.high is None or self._read_up_to(node, clip.high))
            return self._emit("Relu", given) if is_relu else self._clip("", clip, given[0])
        if node.op == "call_module":
            module = layer_or_norm(self._modules[str(node.target)])
            if isinstance(module, PrecisionLayer):
                return self._layer(module.name, module, given[0])
            if isinstance(module, PrecisionNorm):
                return self._precision_norm(module.name, module, given[0])
        elif function_name(node) == "mean":
            return self._mean(node, given)
        return super()._write(node)

    def _read_up_to(self, node: fx.Node, limit: float) -> bool:
        """Whether all readers' quantisers clip at the limit themselves: then a ReLU is enough, which tools know."""
        for user in node.users:
            layer = layer_or_norm(self._modules.get(str(user.target))) if user.op == "call_module" else None
            codes = self._codes_read(layer.name, layer) if isinstance(layer, PrecisionLayer) else None
            if codes is None or int(codes.of(torch.tensor(limit))) < codes.high:
                return False
        return True

    def _codes_read(self, name: str, layer: PrecisionLayer) -> Codes | None:
        bits = self._plan[name].activation
        return None if bits is None else codes_of(self._view(layer).activation, bits, name)

    def _view(self, layer: PrecisionLayer) -> LayerQuantizers:
        view = layer.views[self._plan.name]
        assert isinstance(view, LayerQuantizers)
        return view

    def _layer(self, name: str, layer: PrecisionLayer, given: str) -> str:
        if is_transposed(layer):
            raise InputError(f"layer {name} can't be exported: QONNX's tools know no {layer.plain.__name__}")
        bits, codes = self._plan[name].activation, self._codes_read(name, layer)
        if bits is not None and codes is not None:
            given = self._quantize(f"{name}/input", given, form_of_codes(name, codes, bits))
            self.read.append(QuantizedTensor(name, given, codes.value))
        weight = self._weight(name, layer)
        bias = [] if layer.bias is None else [self._constant(layer.bias)]
        if layer.weights_only:
            output = self._emit("Gather", [weight, given])
        elif layer.rows.dim() > 2:
            options = convolution_attributes(convolution(name, layer), layer.rows)
            output = self._emit("Conv", [given, weight, *bias], **options)
        else:
            output = self._emit("MatMul", [given, weight])
            output = self._emit("Add", [output, *bias]) if bias else output
        return self._summand(name, layer, output)

    def _weight(self, name: str, layer: PrecisionLayer) -> str:
        """As the operation reads it: a product with samples in rows reads a linear layer's transposed."""
        bits = self._plan[name].weight
        linear = layer.rows.dim() == 2 and not layer.weights_only
        if bits is None:
            full = layer.full_weight()
            return self._constant(full.T if linear else full)
        grid = self._view(layer).weight.codes(layer.rows, bits)
        values, form = grid.values(), form_of_weights(name, grid, bits)
        if linear:
            values, form = values.T, replace(form, scale=form.scale.T if form.scale.dim() else form.scale)
        return self._quantize(f"{name}/weight", self._constant(values), form)

    def _precision_norm(self, name: str, norm: PrecisionNorm, given: str) -> str:
        view = norm.views[self._plan.name]
        assert isinstance(view, _BatchNorm)
        if view.running_mean is None or view.running_var is None:
            raise InputError(f"norm {name} can't be exported: it keeps no running statistics")
        weight = torch.ones_like(view.running_mean) if view.weight is None else view.weight
        bias = torch.zeros_like(view.running_mean) if view.bias is None else view.bias
        constants = [self._constant(tensor) for tensor in (weight, bias, view.running_mean, view.running_var)]
        output = self._emit("BatchNormalization", [given, *constants], epsilon=view.eps)
        return self._summand(name, norm, output)

    def _summand(self, name: str, module: Summand, output: str) -> str:
        """What is added, rounded, if the network was trained to round it."""
        if self._plan.name not in module.sums:
            return output
        quantizer = module.sums[self._plan.name]
        assert isinstance(quantizer, Quantizer)
        codes = codes_of(quantizer, SUMMAND_BITS, name, is_summand=True)
        summand = self._quantize(f"{name}/summand", output, form_of_codes(name, codes, SUMMAND_BITS))
        self.added.append(QuantizedTensor(name, summand, codes.value))
        return summand

    def _quantize(self, name: str, values: str, form: Form) -> str:
        """One node for all layers that read the same values alike."""
        key = (values, form.bits, form.signed, form.narrow, *form.scale.flatten().tolist())
        if key not in self._quantized:
            output = None if name in self._quantized.values() else name  # a layer may be called twice
            inputs = [values, self._constant(form.scale)]
            if form.bits is None:
                made = self._emit("BipolarQuant", inputs, output, domain=DOMAIN)
            else:
                inputs += [self._scalar(0), self._scalar(form.bits)]
                attributes = {"signed": int(form.signed), "narrow": int(form.narrow), "rounding_mode": "ROUND"}
                made = self._emit("Quant", inputs, output, domain=DOMAIN, **attributes)
            self._quantized[key] = made
        return self._quantized[key]

    def _mean(self, node: fx.Node, given: list[str]) -> str:
        """Over all pixels a pooling, which tools know; else ReduceMean as this opset has it."""
        rank = self._values[node.all_input_nodes[0]].dims
        dims: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        keep = bool(node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 else False))
        axes = sorted(dim % rank for dim in ([dims] if isinstance(dims, int) else dims or range(rank)))
        if rank > 2 and axes == list(range(2, rank)):
            pooled = self._emit("GlobalAveragePool", given)
            return pooled if keep else self._emit("Flatten", [pooled], axis=1)
        return self._emit("ReduceMean", given, axes=axes, keepdims=int(keep))
