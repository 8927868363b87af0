"""Read the pickles of the CIFAR python version without running anything they ask for.

A pickle is a program that may call whatever it can import by name. Here every name is refused except the four that
pickled uint8 arrays need, and even those don't lead to numpy: they lead to the stand-ins below, which accept exactly
what such an array consists of. So a hostile file reaches no callable but these, and ends as an InputError.
"""

import io
import math
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdqat.errors import InputError


class PickledArray:
    """A uint8 array out of a pickle, in `values` once its state has been read."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], object, bool, bytes | str]) -> None:
        """Fill the array from numpy's state: version, shape, type, order and raw bytes."""
        _, shape, kind, fortran, raw = state
        _require(isinstance(kind, _ByteType), "an array of another type than uint8")
        _require(all(type(extent) is int and extent >= 0 for extent in shape), "an array of impossible shape")
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        _require(isinstance(content, bytes), "an array with no bytes in it")
        _require(len(content) == math.prod(shape), "an array whose shape doesn't fit its content")
        self.values = np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if fortran else "C")


class _ByteType:
    """Stands in for the dtype uint8; its state (byte order, alignment) means nothing for single bytes."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


class _Ndarray:
    """Stands in for the class numpy.ndarray where it is an argument; it can't be called."""

    __slots__ = ()


class _Dtype:
    __slots__ = ()

    def __call__(self, code: object, *_flags: object) -> _ByteType:
        _require(code in ("u1", b"u1", "|u1", b"|u1"), f"an array of type {code!r:.60}")
        return _ByteType()


class _Reconstruct:
    __slots__ = ()

    def __call__(self, kind: object, _shape: object, _code: object) -> PickledArray:
        _require(isinstance(kind, _Ndarray), "an array of a foreign class")
        return PickledArray()


class _Encode:
    """Stands in for _codecs.encode, as which Python 3 writes bytes in protocol 2."""

    __slots__ = ()

    def __call__(self, text: object, encoding: object) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise InputError(f"bytes in the encoding {encoding!r:.60}")
        return text.encode("latin1")


_STAND_INS = {
    ("numpy", "ndarray"): _Ndarray,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct,
    ("_codecs", "encode"): _Encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # An instance, not the class: instances without a __dict__ can't be altered by the pickle's BUILD instruction.
        _require((module, name) in _STAND_INS, f"the name {module:.60}.{name:.60}")
        return _STAND_INS[module, name]()


def loads(content: bytes, origin: str) -> object:
    """Return what is pickled in `content`: plain Python values, with each uint8 array as a PickledArray.

    Args:
        content: the pickle; strings written by Python 2 are read as latin1.
        origin: where it came from, to be named in the error.
    """
    try:
        _check_memo(content)
        return _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except InputError as refusal:
        raise InputError(f"{origin} contains {refusal}, which the CIFAR files don't; it was not read.") from None
    except Exception as error:  # a broken pickle can raise nearly anything
        raise InputError(f"{origin} is not a readable pickle ({type(error).__name__}: {error}).") from error


def _check_memo(content: bytes) -> None:
    """Refuse a pickle that numbers its objects beyond reason: the unpickler reserves memory up to that number."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            _require(isinstance(argument, int) and argument <= len(content), "an impossible instruction")


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise InputError(complaint)
