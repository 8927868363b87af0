"""QONNX's quantisers in standard operations of ONNX, so that runtimes can run a QONNX file."""

from typing import Any

from pdqat.errors import InputError

try:
    import onnx.parser
except ImportError as error:
    raise InputError("QONNX files need onnx: pip install 'pdqat[export]'") from error


def with_functions(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """A copy that runtimes can run, on any number of images: it says what Quant nodes do in standard operations."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = 8  # the first with functions
    for described in (*copy.graph.input, *copy.graph.output):
        if described.type.tensor_type.shape.dim:
            described.type.tensor_type.shape.dim[0].dim_param = "batch"
    copy.functions.extend([_quant(), _bipolar_quant()])
    return copy


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
