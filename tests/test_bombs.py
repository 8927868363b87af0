"""Small files that stand for something huge are refused before it is made."""

import gzip
import json
import os
import tarfile
import threading
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from command_line import refusal
from finished_run import finished_run
from pdqat.data.cifar_files import CIFAR10_BINARY, read
from pdqat.deployment.formats import format_of
from pdqat.deployment.runtimes import read_model
from pdqat.errors import InputError
from pdqat.patience import within
from pdqat.runs.checkpoints import load_example, save_example
from pdqat.runs.folder import Run

LONG = 1 << 26
"""Bytes of a name: more than there should be in memory at once."""


@contextmanager
def in_little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LONG / 4
    finally:
        tracemalloc.stop()


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.pt"
    save_example(path, torch.ones(4))
    assert torch.equal(load_example(path), torch.ones(4))
    return path


def refused(path: Path) -> None:
    with pytest.raises(InputError, match="is damaged or not a torch file of plain tensors"):
        load_example(path)


def test_a_compressed_torch_file(example: Path) -> None:
    with zipfile.ZipFile(example) as stored:
        members = {name: stored.read(name) for name in stored.namelist()}
    with zipfile.ZipFile(example, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    refused(example)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("content", [bytearray(8), torch.zeros(1).expand(8), [[torch.zeros(1).expand(8)]]])
def test_a_torch_file_that_says_how_much_to_make(example: Path, content: Any, zipped: bool) -> None:
    torch.save({"example": content}, example, _use_new_zipfile_serialization=zipped)
    refused(example)


def test_the_older_form_of_torch_files_can_be_read(example: Path) -> None:
    torch.save({"example": torch.arange(4)}, example, _use_new_zipfile_serialization=False)
    assert torch.equal(load_example(example), torch.arange(4))


def test_lists_that_hold_each_other_are_walked_once(example: Path) -> None:
    nested: list[Any] = [torch.ones(1)]
    for _ in range(100):
        nested = [nested, nested]
    torch.save({"example": nested}, example)
    assert len(load_example(example)) == 2


def long_name() -> bytes:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, LONG
    return header.tobuf(tarfile.GNU_FORMAT)


def test_a_torch_file_that_is_an_archive_with_a_long_name(example: Path) -> None:
    with example.open("wb") as file:
        file.write(long_name())
        file.truncate(2 * LONG)
    with in_little_memory():
        refused(example)


def test_a_pipe_in_place_of_a_torch_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "example.pt")
    refused(tmp_path / "example.pt")


@pytest.fixture
def finished_by_hand(tmp_path: Path) -> Run:
    return finished_run(tmp_path / "run")


@pytest.mark.parametrize("name", ["metrics.jsonl", "seal.json", "summary.json"])
@pytest.mark.parametrize("is_pipe", [True, False], ids=["pipe", "device"])
def test_a_stream_among_the_files_of_a_run(
    finished_by_hand: Run, capsys: pytest.CaptureFixture[str], name: str, is_pipe: bool
) -> None:
    """It would never end."""
    file = finished_by_hand.path / name
    file.unlink(missing_ok=True)
    if is_pipe:
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    refusal(capsys, "report", finished_by_hand.path)


def test_a_stream_in_place_of_an_exported_file(finished_by_hand: Run, capsys: pytest.CaptureFixture[str]) -> None:
    noted = {"/dev/zero": {"bytes": 1, "sha256": "0" * 64}}
    (finished_by_hand.path / "exports.json").write_text(json.dumps(noted))
    assert "/dev/zero is no regular file" in refusal(capsys, "report", finished_by_hand.path)


@pytest.mark.parametrize("flag", ["--config", "--plan"])
def test_a_device_that_never_ends_in_place_of_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    with in_little_memory():
        said = refusal(capsys, "train", flag, "/dev/zero", "--out", tmp_path / "run")
    assert said == "pdqat: /dev/zero is larger than 1 MB, which no such file is\n"


def test_a_configuration_from_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_text, args=["epochs = 0\n"]).start()
    assert "epochs must be" in refusal(capsys, "train", "--config", tmp_path / "pipe", "--out", tmp_path / "run")


def packed(write: Callable[[gzip.GzipFile], object], path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        assert isinstance(file, gzip.GzipFile)
        write(file)


def write_long_name(file: gzip.GzipFile) -> None:
    file.write(long_name())
    for _ in range(LONG >> 20):
        file.write(bytes(1 << 20))


def write_many_members(file: gzip.GzipFile) -> None:
    file.write(tarfile.TarInfo("member").tobuf() * 2000)


def write_a_huge_member(file: gzip.GzipFile) -> None:
    member = tarfile.TarInfo("member")
    member.size = 10**12
    file.write(member.tobuf() + bytes(1000))


def write_nested_headers(file: gzip.GzipFile) -> None:
    header = tarfile.TarInfo("name")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1
    file.write((header.tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 2000)


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (write_long_name, f"it has a header of {LONG} bytes"),
        (write_many_members, "it has more than 1000 members"),
        (write_a_huge_member, "it holds more than 400 MB"),
        (write_nested_headers, "recursion"),
    ],
)
def test_an_archive_of_images(tmp_path: Path, write: Callable[[gzip.GzipFile], object], complaint: str) -> None:
    archive = tmp_path / "cifar.tar.gz"
    packed(write, archive)
    with in_little_memory(), pytest.raises(InputError, match=rf"is not a whole .tar.gz archive: .*{complaint}"):
        read(CIFAR10_BINARY, archive)


def plain_graph(node: Any) -> Any:
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    return helper.make_graph([node], "graph", sides[:1], sides[1:])


def test_graphs_inside_graphs(tmp_path: Path) -> None:
    """OpenVINO takes twice as long for every further one: hours for thirty of them."""
    relu = helper.make_node("Relu", ["x"], ["y"])
    branches = dict.fromkeys(("then_branch", "else_branch"), helper.make_graph([relu], "branch", [], []))
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "F", ["x"], ["y"], [relu], domains[:1])
    nested = helper.make_model(plain_graph(helper.make_node("If", ["x"], ["y"], **branches)), opset_imports=domains)
    called = helper.make_model(plain_graph(relu), opset_imports=domains, functions=[function])
    for model in (nested, called):
        onnx.save(model, tmp_path / "model.onnx")
        with pytest.raises(InputError, match="it holds graphs or functions inside its graph"):
            format_of(tmp_path / "model.onnx")


def test_weights_in_other_files(tmp_path: Path) -> None:
    graph = plain_graph(helper.make_node("Relu", ["x"], ["y"]))
    weights = TensorProto(name="weights", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="../../etc/passwd")
    graph.initializer.append(weights)
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    with pytest.raises(InputError, match="it keeps weights in other files"):
        format_of(tmp_path / "model.onnx")


def test_weights_in_other_files_behind_sparse_tensors(tmp_path: Path) -> None:
    graph = plain_graph(helper.make_node("Relu", ["x"], ["y"]))
    weights = TensorProto(name="weights", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="../../etc/passwd")
    graph.sparse_initializer.add(values=weights, dims=[1])
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    with pytest.raises(InputError, match="it holds sparse tensors"):
        format_of(tmp_path / "model.onnx")


def test_graphs_inside_a_graph_of_openvino(tmp_path: Path) -> None:
    file = tmp_path / "model.xml"
    file.write_text('<?xml version="1.0"?><net><layers><layer type="If"><then_body/></layer></layers></net>')
    with pytest.raises(InputError, match="it holds graphs inside its graph"):
        read_model(None, file)


@pytest.mark.parametrize("content", [b'<net name="\xff"></net>', b"<net>", b'<net version="9\xff"/>'])
def test_a_damaged_graph_of_openvino(tmp_path: Path, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    import openvino

    file = tmp_path / "model.xml"
    file.write_bytes(content)
    with pytest.raises(InputError, match="is damaged or not a model of OpenVINO's"):
        read_model(openvino.Core(), file)
    assert capfd.readouterr().err == ""


def test_patience_ends() -> None:
    forever = threading.Event()
    with pytest.raises(InputError, match=r"loading it takes longer than 0\.05 seconds"):
        within(forever.wait, "loading it", 0.05)
    forever.set()


def test_within_patience_a_call_returns_or_raises() -> None:
    assert within(lambda: 3, "counting") == 3
    with pytest.raises(InputError, match="bad"):
        within(lambda: (_ for _ in ()).throw(InputError("bad")), "throwing")
