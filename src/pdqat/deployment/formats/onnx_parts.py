"""Parts of ONNX graphs: what nodes make of an example, and how inputs, outputs and convolutions are described."""

from typing import Any

from torch import Tensor, fx

from pdqat.errors import InputError

try:
    from onnx import helper
except ImportError as error:
    raise InputError("ONNX files need onnx: pip install 'pdqat[export]'") from error


class Shapes(fx.Interpreter):
    """Remembers what every operation makes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.by_target: dict[str, Any] = {}
        self.by_name: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Called by torch.fx."""
        made = super().run_node(n)
        self.by_target[str(n.target)] = self.by_name[n.name] = made
        return made


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


def function_name(node: fx.Node) -> str:
    """Of a function or method that is called."""
    return str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
