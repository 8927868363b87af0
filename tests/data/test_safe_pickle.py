import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from official_cifar import OfficialCifar, python2_pickle
from pdqat.data import load_cifar
from pdqat.data.cifar_files import CIFAR10_PYTHON
from pdqat.data.safe_pickle import PickledArray, loads
from pdqat.errors import InputError


class Command:
    """Unpickles by running a shell command that leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.trace}",)


def refused(program: bytes, match: str) -> None:
    with pytest.raises(InputError, match=match):
        loads(program, "the file")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_arrays_and_plain_values_survive(protocol: int) -> None:
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    read = loads(pickle.dumps({"data": values, "labels": [1, 2], "raw": b"\x00\xff"}, protocol=protocol), "the file")
    assert isinstance(read, dict)
    assert isinstance(read["data"], PickledArray)
    assert np.array_equal(read["data"].values, values)
    assert (read["labels"], read["raw"]) == ([1, 2], b"\x00\xff")


def test_column_major_arrays_are_read() -> None:
    values = np.asfortranarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    read = loads(pickle.dumps(values, protocol=2), "the file")
    assert isinstance(read, PickledArray)
    assert np.array_equal(read.values, values)


def test_python2_pickles_are_read() -> None:
    values = np.arange(250, 256, dtype=np.uint8).reshape(2, 3)
    read = loads(python2_pickle({"data": values, "labels": [7, 300]}), "the file")
    assert isinstance(read, dict)
    assert np.array_equal(read["data"].values, values)
    assert read["labels"] == [7, 300]


def test_a_command_in_an_official_looking_file_is_not_run(cifar10: OfficialCifar) -> None:
    trace = cifar10.root / "trace"
    content = pickle.dumps({"data": Command(trace)}, protocol=2)
    folder = cifar10.folder(CIFAR10_PYTHON)
    (folder / "data_batch_1").write_bytes(content)
    cifar10.declare_official("cifar-10-batches-py/data_batch_1", content)
    with pytest.raises(InputError, match=r"data_batch_1 in .* contains the name (posix|nt)\.system"):
        load_cifar("cifar10", folder)
    assert not trace.exists()
    pickle.loads(content)
    assert trace.exists(), "the pickle would have run its command elsewhere"


@pytest.mark.parametrize(
    "name",
    [
        b"builtins\neval",
        b"__builtin__\neval",
        b"numpy\nload",
        b"numpy\nmemmap",
        b"numpy.core.multiarray\nscalar",
        b"_codecs\ndecode",
        b"codecs\nencode",
        b"copyreg\n_reconstructor",
        b"pdqat.data.safe_pickle\nloads",
    ],
)
def test_any_other_name_is_refused(name: bytes) -> None:
    refused(b"\x80\x02c" + name + b"\n.", "contains the name")


def test_dotted_names_do_not_lead_further() -> None:
    refused(b"\x80\x04\x8c\x05numpy\x8c\x0fdtype.__class__\x93.", "contains the name")


def test_text_encodings_other_than_latin1_are_refused() -> None:
    refused(b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", "encoding 'rot13'")
    refused(b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00a\x85R.", "not a readable pickle")


@pytest.mark.parametrize(
    "values",
    [np.zeros(2), np.array([None, "x"]), np.array(["a"]), np.zeros(1, "V4")],
)
def test_other_arrays_are_refused(values: NDArray[np.generic]) -> None:
    refused(pickle.dumps(values, protocol=2), "contains an array")


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
BYTE_TYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85U\x01b\x87R.", "foreign class"),
        (b"cnumpy.core.multiarray\n_reconstruct\n)R.", "TypeError"),
        (b"cnumpy\nndarray\n)R.", "TypeError"),
        (b"cnumpy\nndarray\n)\x81.", "not a readable pickle"),
        (ARRAY + b"(K\x01K\x05\x85" + BYTE_TYPE + b"\x89U\x04abcdtb.", "shape doesn't fit"),
        (ARRAY + b"(K\x01J\xff\xff\xff\xffJ\xfc\xff\xff\xff\x86" + BYTE_TYPE + b"\x89U\x04abcdtb.", "impossible shape"),
        (ARRAY + b"(K\x01K\x05\x85" + BYTE_TYPE + b"\x89J\xff\xff\xff\x7ftb.", "no bytes"),
        (ARRAY + b"(K\x01K\x01\x85U\x02u1\x89U\x01atb.", "another type than uint8"),
        (ARRAY + b"Nb.", "not a readable pickle"),
        (b"Nr\xff\xff\xff\xff.", "impossible instruction"),
        (b"c_codecs\nencode\n}U\x08__call__Nsb.", "not a readable pickle"),
        (b"c_codecs\nencode\nN}U\x09__class__Ns\x86b.", "not a readable pickle"),
    ],
)
def test_misused_instructions_are_refused(program: bytes, complaint: str) -> None:
    refused(b"\x80\x02" + program, complaint)


def test_nothing_a_pickle_does_outlasts_it() -> None:
    refused(b"\x80\x02cnumpy\ndtype\nN}U\x08__call__Ns\x86b.", "read-only")
    assert isinstance(loads(pickle.dumps(np.zeros(3, np.uint8), protocol=2), "the file"), PickledArray)


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=80))
def test_random_programs_end_as_values_or_input_errors(noise: bytes, position: int) -> None:
    program = python2_pickle({"data": np.zeros((1, 2), dtype=np.uint8), "labels": [1]})
    for content in (noise, program[:position] + noise, program[:position] + noise + program[position:]):
        try:
            loads(content, "the file")
        except InputError:
            continue
