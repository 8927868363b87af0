"""The simulated network as a QONNX file, for FPGA tools: a float graph with Quant nodes on weights and activations.

Weights stand in the file already quantised, so that neither DoReFa's tanh nor a tie decides anything there. Opset and
IR version are old ones, which those tools read.
"""

import operator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.errors import InputError
from pdqat.export.graph import (
    Codes,
    check_padding,
    codes_of,
    convolution,
    function_of_numbers,
    traced,
)
from pdqat.export.onnx_graph import GraphWriter, convolution_attributes
from pdqat.export.quant_form import Form, form_of_codes, form_of_weights
from pdqat.layers import Network
from pdqat.layers.layer import LayerQuantizers, PrecisionLayer
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.summand import SUMMAND_BITS, Summand
from pdqat.layers.trace import evaluating
from pdqat.precision import BitPlan
from pdqat.quantizers import Quantizer

try:
    import onnx.parser
except ImportError as error:
    raise InputError("QONNX files need onnx: pip install 'pdqat[export]'") from error

DOMAIN = "qonnx.custom_op.general"


@torch.no_grad()
def to_qonnx(net: Network, plan: BitPlan, example: Tensor) -> "onnx.ModelProto":
    """The network under the plan, for inputs of the example's shape; what can't be written is an InputError."""
    with evaluating(net), net.under(plan):
        module = fx.GraphModule(net.model, traced(net.model))
        ShapeProp(module).propagate(example)
        model = _QonnxWriter(module, example, plan).model()
    for each in (*model.graph.input, *model.graph.output):
        each.type.tensor_type.shape.dim[0].dim_value = len(example)  # the tools want a size, not the name of one
    return model


def with_functions(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """A copy that runtimes can run, on any number of images: it says what Quant nodes do in standard operations."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = 8  # the first with functions
    for each in (*copy.graph.input, *copy.graph.output):
        if each.type.tensor_type.shape.dim:
            each.type.tensor_type.shape.dim[0].dim_param = "batch"
    copy.functions.extend([_quant(), _bipolar_quant()])
    return copy


class _QonnxWriter(GraphWriter):
    DOMAINS = (("", 13), (DOMAIN, 1))
    IR = 7

    def __init__(self, module: fx.GraphModule, example: Tensor, plan: BitPlan) -> None:
        super().__init__(module, example)
        self._plan = plan
        self._quantized: dict[tuple[Any, ...], str] = {}

    def _write(self, node: fx.Node) -> str:
        if node.op == "get_attr":
            return self._constant(operator.attrgetter(str(node.target))(self._module))
        given = [self._names[each] for each in node.all_input_nodes]
        clip = function_of_numbers(node, self._modules)
        if clip is not None:
            is_relu = clip.low == 0 and (clip.high is None or self._read_up_to(node, clip.high))
            return self._emit("Relu", given) if is_relu else self._clip("", clip, given[0])
        if node.op == "call_module":
            name, module = str(node.target), self._modules[str(node.target)]
            if isinstance(module, PrecisionLayer):
                return self._layer(name, module, given[0])
            if isinstance(module, PrecisionNorm):
                return self._precision_norm(name, module, given[0])
        elif node.target in (torch.mean, "mean"):
            return self._mean(node, given)
        return super()._write(node)

    def _read_up_to(self, node: fx.Node, limit: float) -> bool:
        """Whether all readers' quantisers clip at the limit themselves: then a ReLU is enough, which tools know."""
        for user in node.users:
            layer = self._modules.get(str(user.target)) if user.op == "call_module" else None
            codes = self._codes_read(str(user.target), layer) if isinstance(layer, PrecisionLayer) else None
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
        check_padding(name, layer)
        bits, codes = self._plan[name].activation, self._codes_read(name, layer)
        if bits is not None and codes is not None:
            given = self._quantize(f"{name}/input", given, form_of_codes(name, codes, bits))
        weight = self._weight(name, layer)
        bias = [] if layer.bias is None else [self._constant(layer.bias)]
        if layer.weight.dim() > 2:
            options = convolution_attributes(convolution(name, layer), layer.weight)
            output = self._emit("Conv", [given, weight, *bias], **options)
        else:
            output = self._emit("MatMul", [given, weight])
            output = self._emit("Add", [output, *bias]) if bias else output
        return self._summand(name, layer, output)

    def _weight(self, name: str, layer: PrecisionLayer) -> str:
        """As the operation reads it: a product with samples in rows reads a linear layer's transposed."""
        bits = self._plan[name].weight
        linear = layer.weight.dim() == 2
        if bits is None:
            full = layer.full_weight()
            return self._constant(full.T if linear else full)
        grid = self._view(layer).weight.codes(layer.weight, bits)
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
        constants = [self._constant(each) for each in (weight, bias, view.running_mean, view.running_var)]
        output = self._emit("BatchNormalization", [given, *constants], epsilon=view.eps)
        return self._summand(name, norm, output)

    def _summand(self, name: str, module: Summand, output: str) -> str:
        """What is added, rounded, if the network was trained to round it."""
        if self._plan.name not in module.sums:
            return output
        quantizer = module.sums[self._plan.name]
        assert isinstance(quantizer, Quantizer)
        codes = codes_of(quantizer, SUMMAND_BITS, name, is_summand=True)
        return self._quantize(f"{name}/summand", output, form_of_codes(name, codes, SUMMAND_BITS))

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
        rank = len(node.all_input_nodes[0].meta["tensor_meta"].shape)
        dims: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        keep = bool(node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 else False))
        axes = sorted(each % rank for each in ([dims] if isinstance(dims, int) else dims or range(rank)))
        if rank > 2 and axes == list(range(2, rank)):
            pooled = self._emit("GlobalAveragePool", given)
            return pooled if keep else self._emit("Flatten", [pooled], axis=1)
        return self._emit("ReduceMean", given, axes=axes, keepdims=int(keep))


def _quant() -> Any:
    """Quant as qonnx defines it, but for signed numbers of one bit, which are written as BipolarQuant."""
    body = """
    <opset_import: ["" : 13], domain: "qonnx.custom_op.general">
    Quant <signed, narrow, rounding_mode> (x, scale, zero_point, bits) => (y) {
        signed_number = Constant <value_int: int = @signed> ()
        narrow_number = Constant <value_int: int = @narrow> ()
        is_signed = Cast <to = 1> (signed_number)
        is_narrow = Cast <to = 1> (narrow_number)
        one = Constant <value = float {1}> ()
        two = Constant <value = float {2}> ()
        number_bits = Sub (bits, is_signed)
        count = Pow (two, number_bits)
        left_out = Sub (is_narrow, count)
        low = Mul (is_signed, left_out)
        is_unsigned = Sub (one, is_signed)
        top_left_out = Mul (is_unsigned, is_narrow)
        top = Sub (count, one)
        high = Sub (top, top_left_out)
        scaled = Div (x, scale)
        shifted = Add (scaled, zero_point)
        clipped = Clip (shifted, low, high)
        rounded = Round (clipped)
        centred = Sub (rounded, zero_point)
        y = Mul (centred, scale)
    }"""
    return onnx.parser.parse_function(body)


def _bipolar_quant() -> Any:
    body = """
    <opset_import: ["" : 13], domain: "qonnx.custom_op.general">
    BipolarQuant (x, scale) => (y) {
        zero = Constant <value = float {0}> ()
        one = Constant <value = float {1}> ()
        minus_one = Constant <value = float {-1}> ()
        is_negative = Less (x, zero)
        sign = Where (is_negative, minus_one, one)
        y = Mul (sign, scale)
    }"""
    return onnx.parser.parse_function(body)
