"""A frozen network as an OpenVINO model: the QCDQ file, with one-bit convolutions for OpenVINO's binary kernel.

The kernel adds by exclusive or and popcount. OpenVINO takes it for a convolution whose weights are -1 and 1 and whose
input is a FakeQuantize of two levels that nothing else reads, in a model of a fixed batch size. Between two of
them the requantisation is one threshold a channel, which the kernel applies itself.
"""

import io
import os
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, fx

from pdqat.deployment.formats.onnx_file import Writer
from pdqat.deployment.formats.onnx_parts import convolution_attributes
from pdqat.deployment.integer.operations import IntegerProduct, RealProduct, RequantizedProduct, ToCodes, rounded
from pdqat.deployment.integer.sum_operations import RequantizedSum, SumsToCodes
from pdqat.deployment.runtimes import read_model, reason
from pdqat.errors import InputError

try:
    import openvino
    import openvino.opset15 as ops
except ImportError as error:
    raise InputError("the format openvino needs OpenVINO: pip install 'pdqat[openvino]'") from error

DOMAIN = "org.openvinotoolkit"
"""Of the operations that OpenVINO adds to ONNX."""
MOST_READERS = 4
"""Of the same codes."""
WHOLE_BYTES = 8
"""The kernel gives wrong sums for other numbers of input channels than multiples of this one."""


def to_openvino(module: fx.GraphModule, example: tuple[Tensor, ...], pack: bool) -> "openvino.Model":
    """The model; of batch size 1, to be reshaped, where it has binary convolutions, else of any."""
    return _made(_BinaryWriter(module, example, pack))


def save(model: "openvino.Model", path: Path) -> None:
    """Write PATH.xml and, beside it, PATH.bin."""
    try:
        openvino.save_model(model, path, compress_to_fp16=False)
    except RuntimeError as error:
        raise InputError(f"can't write {path}: {reason(error)}") from error
    for suffix in (".xml", ".bin"):
        with path.with_suffix(suffix).open("rb") as file:
            os.fsync(file.fileno())


def with_codes(path: Path, module: fx.GraphModule, example: tuple[Tensor, ...]) -> "openvino.Model":
    """A file of a frozen module with all codes as outputs too, called codes/OPERATION."""
    model = read_model(openvino.Core(), path)
    for packed in (False, True):
        writer = _BinaryWriter(module, example, packed)
        if _kinds(_made(writer)) == _kinds(model):
            break
    else:
        raise InputError(f"{path} was not exported from this network under this plan: its operations are others")
    by_name = {name: output for op in model.get_ops() for output in op.outputs() for name in output.get_names()}
    for name, (tensor, zero) in writer.codes.items():
        if tensor not in by_name:
            raise InputError(f"{path} was not exported from this network under this plan: it has no tensor {tensor}")
        codes = ops.subtract(ops.convert(_beside(by_name[tensor]), "i32"), ops.constant(np.int32(zero)))
        codes.output(0).set_names({f"codes/{name}"})
        model.add_results([ops.result(codes)])
    return model


def _beside(codes: "openvino.Output") -> "openvino.Output":
    """Codes to look at: those that a convolution reads alone are computed once more, else it loses its kernel."""
    maker = codes.get_node()
    if maker.get_type_name() != "FakeQuantize" or maker.get_attributes()["levels"] != 2:
        return codes
    return ops.greater(maker.input_value(0), maker.input_value(1)).output(0)


def binary_products(module: fx.GraphModule) -> set[str]:
    """The convolutions that the binary kernel can compute, by name."""
    readers: dict[fx.Node, list[fx.Node]] = {}
    for node in module.graph.nodes:
        if node.op == "call_module" and _reads_signs(module, node):
            readers.setdefault(node.args[0], []).append(node)
    return {
        str(node.target)
        for maker, nodes in readers.items()
        if len(nodes) == len(maker.users) <= MOST_READERS
        for node in nodes
    }


def _reads_signs(module: fx.GraphModule, node: fx.Node) -> bool:
    """Whether it is a convolution of codes 0 and 1 with weights of one size, in one group."""
    product, maker = module.get_submodule(str(node.target)), node.args[0]
    if not isinstance(product, IntegerProduct) or not isinstance(maker, fx.Node) or maker.op != "call_module":
        return False
    source = module.get_submodule(str(maker.target))
    makers = (RequantizedProduct, RequantizedSum, SumsToCodes, ToCodes)
    if not isinstance(source, makers) or (source.low, source.high) != (0, 1):
        return False
    sizes = set(product.weight[product.weight.flatten(1).any(1)].abs().flatten().tolist())
    plain = product.weight.dim() == 4 and product.convolution["groups"] == 1 and not product.is_transposed
    return plain and product.weight.shape[1] % WHOLE_BYTES == 0 and len(sizes) == 1


class _BinaryWriter(Writer):
    DOMAINS = (*Writer.DOMAINS, (DOMAIN, 1))

    def __init__(self, module: fx.GraphModule, example: tuple[Tensor, ...], pack: bool) -> None:
        super().__init__(module, example, pack)
        self.binary = binary_products(module)
        readers = [node for node in module.graph.nodes if str(node.target) in self.binary]
        self._signs = {str(node.args[0].target) for node in readers}
        """The operations that make their codes."""
        self._made_from: dict[str, tuple[str, str]] = {}
        """Codes to the values and the threshold that they are made from."""
        self._readers: Counter[str] = Counter()

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
        if name not in self._signs:
            return super()._round(name, values, low, high, is_summand, scale, shape)
        return self._compared(name, values, self._constant(np.full((1, 1, 1, 1), 0.5 * scale), np.float32))

    def _compared(self, name: str, values: str, threshold: str) -> str:
        """1 above the threshold, else 0."""
        codes = self._fake_quantize(values, threshold)
        self._made_from[codes] = values, threshold
        self.codes[name] = (codes, 0)
        return codes

    def _own(self, codes: str, channels: int) -> str:
        """The codes for one more reader: OpenVINO takes the kernel only where each has a FakeQuantize of its own.

        It would merge equal ones, so they differ in the shapes of their constants.
        """
        reader = self._readers[codes]
        self._readers[codes] += 1
        if not reader:
            return codes
        return self._fake_quantize(*self._made_from[codes], *(channels if reader & bit else 1 for bit in (1, 2)))

    def _fake_quantize(self, values: str, threshold: str, *channels: int) -> str:
        low, high = channels or (1, 1)
        ends = [
            self._constant(np.zeros((1, low, 1, 1), np.float32)),
            self._constant(np.ones((1, high, 1, 1), np.float32)),
        ]
        return self._emit("FakeQuantize", [values, threshold, threshold, *ends], domain=DOMAIN, levels=2)

    def _requantized(self, name: str, module: RequantizedProduct, given: str) -> str:
        if name not in self.binary:
            return super()._requantized(name, module, given)
        sums, size = self._signed_sums(module, given)
        if name in self._signs:
            return self._compared(name, sums, self._per_channel(_thresholds(module, size), 4))
        whole = self._emit("Mul", [sums, self._per_channel(size, 4)])
        above = self._emit("Add", [whole, self._per_channel(module.offset.float(), 4)])
        line = self._emit("Mul", [above, self._per_channel(module.multiplier, 4)])
        return self._round(name, line, module.low, module.high, module.is_summand)

    def _product_sums(self, name: str, module: IntegerProduct, given: str) -> str:
        if name not in self.binary:
            return super()._product_sums(name, module, given)
        sums, size = self._signed_sums(module, given)
        return self._emit("Mul", [sums, self._per_channel(size, 4)])

    def _real_product(self, name: str, module: RealProduct, given: str) -> str:
        if name not in self.binary:
            return super()._real_product(name, module, given)
        sums, size = self._signed_sums(module, given)
        scaled = self._emit("Mul", [sums, self._per_channel(module.scale * size, 4)])
        return self._emit("Add", [scaled, self._per_channel(module.bias, 4)])

    def _signed_sums(self, module: IntegerProduct, given: str) -> tuple[str, Tensor]:
        """The convolution with the signs of the weights, and per channel what it is to be multiplied with."""
        signs = torch.where(module.weight < 0, -1, 1).to(torch.int8)
        weight = self._as_float(self._packed(signs))
        sums = self._emit(
            "Conv", [self._own(given, signs.shape[1]), weight], **convolution_attributes(module.convolution, signs)
        )
        return sums, module.weight.flatten(1).abs().amax(1).float()


def _thresholds(module: RequantizedProduct, size: Tensor) -> Tensor:
    """Per channel the half-integer that separates the sums of signs with code 0 from those with code 1."""
    reach = module.weight[0].numel()
    sums = torch.arange(-reach, reach + 1)
    whole = sums * size[:, None].double() + module.offset[:, None]
    ones = rounded(whole.float() * module.multiplier[:, None], 0, 1)
    return reach + 0.5 - ones.sum(1)


def _made(writer: _BinaryWriter) -> "openvino.Model":
    model = openvino.Core().read_model(io.BytesIO(writer.model().SerializeToString()))
    if writer.binary:
        shapes = {each.get_any_name(): [1, *list(each.get_partial_shape())[1:]] for each in model.inputs}
        model.reshape(shapes)
    return model


def _kinds(model: "openvino.Model") -> Counter[str]:
    return Counter(op.get_type_name() for op in model.get_ops())
