"""Functions of single numbers as ONNX has them: arithmetic, activations, types."""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from torch import Tensor

from pdqat.deployment.formats.onnx_emitter import Emitter, Value

OF_ONE = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "erf": "Erf",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "neg": "Neg",
    "abs": "Abs",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "cos": "Cos",
    "floor": "Floor",
    "ceil": "Ceil",
}


def _of_one(kind: str) -> Callable[..., str]:
    return lambda file, x: file.emit(kind, [file.operand(x)])


def _of_two(kind: str) -> Callable[..., str]:
    return lambda file, x, y: file.emit(kind, [file.operand(x), file.operand(y)])


def _plus(file: Emitter, x: Any, other: Any, kind: str, alpha: float) -> str:
    added = file.operand(other)
    return file.emit(kind, [file.operand(x), added if alpha == 1 else file.emit("Mul", [added, file.operand(alpha)])])


def add(file: Emitter, x: Any, other: Any, *, alpha: float = 1) -> str:
    """x + alpha x other."""
    return _plus(file, x, other, "Add", alpha)


def sub(file: Emitter, x: Any, other: Any, *, alpha: float = 1) -> str:
    """x - alpha x other."""
    return _plus(file, x, other, "Sub", alpha)


def rsub(file: Emitter, x: Any, other: Any, alpha: float = 1) -> str:
    """other - alpha x x."""
    return _plus(file, other, x, "Sub", alpha)


def div(file: Emitter, x: Any, other: Any, *, rounding_mode: str | None = None) -> str:
    """Of real numbers."""
    if rounding_mode is not None:
        raise file.refuse(f"a division rounded by {rounding_mode!r}")
    return file.emit("Div", [file.operand(x), file.operand(other)])


def square(file: Emitter, x: Value) -> str:
    """x x x."""
    return file.emit("Mul", [file.operand(x)] * 2)


def rsqrt(file: Emitter, x: Value) -> str:
    """1 / sqrt(x)."""
    return file.emit("Reciprocal", [file.emit("Sqrt", [file.operand(x)])])


def power(file: Emitter, x: Value, exponent: Any) -> str:
    """To a constant power."""
    if isinstance(exponent, Value):
        if not (isinstance(exponent.small, Tensor) and exponent.is_constant and exponent.small.numel() == 1):
            raise file.refuse("a power that is not one constant number")
        exponent = float(exponent.small)
    if exponent == 2:
        return square(file, x)
    if exponent == 0.5:
        return file.emit("Sqrt", [file.operand(x)])
    if exponent == -0.5:
        return rsqrt(file, x)
    if exponent == 3:
        return file.emit("Mul", [square(file, x), file.operand(x)])
    return file.emit("Pow", [file.operand(x), file.operand(exponent)])


def relu(file: Emitter, x: Value, inplace: bool = False) -> str:
    """Never below 0."""
    return file.emit("Relu", [x.name])


def clamp(file: Emitter, x: Value, min: Any = None, max: Any = None) -> str:  # noqa: A002
    """Within limits, which may be tensors."""
    if not isinstance(min, Value) and not isinstance(max, Value):
        return file.emit(
            "Clip", [file.operand(x), *("" if limit is None else file.operand(limit) for limit in (min, max))]
        )
    name = file.operand(x)
    for kind, limit in (("Max", min), ("Min", max)):
        name = name if limit is None else file.emit(kind, [name, file.operand(limit)])
    return name


def hardtanh(file: Emitter, x: Value, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> str:
    """Within limits."""
    return clamp(file, x, min_val, max_val)


def leaky_relu(file: Emitter, x: Value, negative_slope: float = 0.01, inplace: bool = False) -> str:
    """A smaller slope below 0."""
    return file.emit("LeakyRelu", [x.name], alpha=float(negative_slope))


def elu(
    file: Emitter, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0, inplace: bool = False
) -> str:
    """alpha (exp(x) - 1) below 0."""
    if (scale, input_scale) != (1, 1):
        raise file.refuse("an ELU with scales")
    return file.emit("Elu", [x.name], alpha=float(alpha))


def selu(file: Emitter, x: Value, inplace: bool = False) -> str:
    """A scaled ELU."""
    return file.emit("Selu", [x.name])


def celu(file: Emitter, x: Value, alpha: float = 1.0, inplace: bool = False) -> str:
    """alpha (exp(x / alpha) - 1) below 0."""
    return file.emit("Celu", [x.name], alpha=float(alpha))


def prelu(file: Emitter, x: Value, weight: Value) -> str:
    """A slope of its own for each channel below 0."""
    slopes = weight.name
    if x.dims > 1 and weight.is_constant:
        slopes = file.constant(weight.small.reshape(-1, *[1] * (x.dims - 2)))
    elif weight.small.numel() > 1:
        raise file.refuse("a PReLU with slopes that are computed")
    return file.emit("PRelu", [x.name, slopes])


def gelu(file: Emitter, x: Value, approximate: str = "none") -> str:
    """x times the normal distribution's integral, or its approximation by tanh."""
    if approximate == "tanh":
        cubed = file.emit("Mul", [file.emit("Mul", [x.name, x.name]), x.name])
        bent = file.emit("Add", [x.name, file.emit("Mul", [cubed, file.scalar(0.044715)])])
        curve = file.emit("Tanh", [file.emit("Mul", [bent, file.scalar(sqrt(2 / pi))])])
    else:
        curve = file.emit("Erf", [file.emit("Div", [x.name, file.scalar(sqrt(2))])])
    doubled = file.emit("Mul", [x.name, file.emit("Add", [curve, file.scalar(1)])])
    return file.emit("Mul", [doubled, file.scalar(0.5)])


def silu(file: Emitter, x: Value, inplace: bool = False) -> str:
    """x sigmoid(x)."""
    return file.emit("Mul", [x.name, file.emit("Sigmoid", [x.name])])


def hardsigmoid(file: Emitter, x: Value, inplace: bool = False) -> str:
    """x / 6 + 1/2 between 0 and 1."""
    return file.emit("HardSigmoid", [x.name], alpha=1 / 6, beta=0.5)


def hardswish(file: Emitter, x: Value, inplace: bool = False) -> str:
    """x hardsigmoid(x)."""
    return file.emit("Mul", [x.name, hardsigmoid(file, x)])


def softplus(file: Emitter, x: Value, beta: float = 1.0, threshold: float = 20.0) -> str:
    """log(1 + exp(beta x)) / beta; beyond torch's threshold x itself, which is the same in float32."""
    if threshold < 18:
        raise file.refuse(f"a softplus with a threshold of {threshold}, below 18,")
    if beta == 1:
        return file.emit("Softplus", [x.name])
    bent = file.emit("Softplus", [file.emit("Mul", [x.name, file.scalar(beta)])])
    return file.emit("Div", [bent, file.scalar(beta)])


def mish(file: Emitter, x: Value, inplace: bool = False) -> str:
    """x tanh(softplus(x))."""
    return file.emit("Mul", [x.name, file.emit("Tanh", [file.emit("Softplus", [x.name])])])


def converted(file: Emitter, x: Value, *_: Any, **__: Any) -> str:
    """In another type."""
    return file.cast(x.name, x.small.dtype, file.made.small.dtype)


def unchanged(file: Emitter, x: Value, *_: Any, **__: Any) -> str:
    """What changes nothing in a file."""
    return str(x.name)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _of_one(kind) for name, kind in OF_ONE.items()},
    "mul": _of_two("Mul"),
    "maximum": _of_two("Max"),
    "minimum": _of_two("Min"),
    "add": add,
    "sub": sub,
    "rsub": rsub,
    "div": div,
    "square": square,
    "rsqrt": rsqrt,
    "pow": power,
    "relu": relu,
    "clamp": clamp,
    "clamp_min": clamp,
    "hardtanh": hardtanh,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "clamp_max": lambda file, x, max: clamp(file, x, None, max),  # noqa: A006
    "relu6": lambda file, x, inplace=False: clamp(file, x, 0.0, 6.0),
    "selu": selu,
    "celu": celu,
    "prelu": prelu,
    "gelu": gelu,
    "silu": silu,
    "mish": mish,
    "softplus": softplus,
    "hardsigmoid": hardsigmoid,
    "hardswish": hardswish,
    **dict.fromkeys(("to", "to_copy", "type", "type_as", "float", "long", "int", "bool"), converted),
    **dict.fromkeys(("contiguous", "clone", "detach", "lift_fresh_copy", "alias"), unchanged),
}
"""By torch's names, with torch's arguments behind the file."""
