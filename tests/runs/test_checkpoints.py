import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from pdqat.errors import InputError
from pdqat.runs.checkpoints import (
    as_checkpoint,
    load_checkpoint,
    load_example,
    load_weights,
    save_checkpoint,
    save_example,
)
from same_run import differences

CHECKPOINT: dict[str, Any] = {
    "format": 1,
    "epoch": 3,
    "seconds": 1.5,
    "best": {"epoch": 2, "score": 0.5},
    "model": {
        "conv.weight": torch.arange(600.0).view(6, 100),
        "norm.weight": torch.ones(6),
        "norm.views.2-bit.weight": torch.zeros(6),
        "views.weight": torch.zeros(1),
    },
    "duals": {"multipliers": torch.tensor([1.0, 0.0])},
}


class Malicious:
    """Pickles to a call of os.system that leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch '{self.trace}'",)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "last.pt"
    save_checkpoint(path, CHECKPOINT)
    return path


def both_refuse(path: Path, sentence: str = "damaged or not a torch file of plain tensors") -> None:
    for read in (load_checkpoint, load_weights):
        with pytest.raises(InputError, match=sentence) as refusal:
            read(path)
        assert str(path) in str(refusal.value)


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


def test_a_checkpoint_comes_back_as_it_was(checkpoint: Path) -> None:
    loaded = load_checkpoint(checkpoint)
    assert equal(loaded.pop("model"), CHECKPOINT["model"])
    assert equal(loaded.pop("duals"), CHECKPOINT["duals"])
    assert loaded == {key: value for key, value in CHECKPOINT.items() if key not in ("model", "duals")}


def test_the_best_accuracy_of_an_earlier_version_is_the_best_score(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "last.pt", {**CHECKPOINT, "best": {"epoch": 2, "accuracy": 0.5}})
    assert load_checkpoint(tmp_path / "last.pt")["best"] == {"epoch": 2, "score": 0.5}


@pytest.mark.parametrize(
    "example",
    [torch.rand(3, 4), (torch.rand(3, 4), torch.arange(3)), {"x": [torch.rand(3)], "scale": 2.0}],
    ids=["tensor", "tuple", "dictionary"],
)
def test_an_example_comes_back_as_it_was(tmp_path: Path, example: Any) -> None:
    save_example(tmp_path / "example.pt", example)
    assert differences(load_example(tmp_path / "example.pt"), example) == []


def test_an_example_can_not_run_code_and_damage_is_noticed(tmp_path: Path) -> None:
    path, trace = tmp_path / "example.pt", tmp_path / "trace"
    with pytest.raises(InputError, match=r"there is no example input .*example.pt"):
        load_example(path)
    torch.save({"example": Malicious(trace)}, path)
    with pytest.raises(InputError, match=r"the example input .*example.pt is damaged or not a torch file"):
        load_example(path)
    assert not trace.exists()
    torch.save([torch.ones(2)], path)
    with pytest.raises(InputError, match=r"example.pt holds no example input of a pdqat run"):
        load_example(path)


def test_a_file_that_would_run_code_is_refused_without_running_it(tmp_path: Path) -> None:
    trace, content = tmp_path / "trace", {**CHECKPOINT, "model": {"weight": Malicious(tmp_path / "trace")}}
    pickle.loads(pickle.dumps(Malicious(trace)))
    assert trace.exists(), "the weapon works"
    trace.unlink()
    for name, legacy in (("zip.pt", False), ("legacy.pt", True)):
        torch.save(content, tmp_path / name, _use_new_zipfile_serialization=not legacy)
        both_refuse(tmp_path / name)
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(content))
    both_refuse(tmp_path / "plain.pt")
    assert not trace.exists()


@pytest.mark.parametrize("part", [0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(checkpoint: Path, part: float) -> None:
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: int(part * len(content))])
    both_refuse(checkpoint)


@given(st.binary(max_size=60))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random.pt"
    path.write_bytes(content)
    both_refuse(path)


@pytest.mark.parametrize("prefix", [b"", b"\x80\x02"], ids=["bare", "protocol 2"])
def test_every_first_instruction_of_a_pickle_is_refused(tmp_path: Path, prefix: bytes) -> None:
    path = tmp_path / "odd.pt"
    for instruction in range(256):
        path.write_bytes(prefix + bytes([instruction]) + b"abc\nde\x01.")
        with pytest.raises(InputError):
            load_checkpoint(path)


def test_a_flipped_bit_in_a_tensor_is_noticed(checkpoint: Path) -> None:
    content = bytearray(checkpoint.read_bytes())
    weights = CHECKPOINT["model"]["conv.weight"].numpy().tobytes()
    content[content.index(weights) + 1000] ^= 1
    checkpoint.write_bytes(content)
    assert not equal(torch.load(checkpoint, weights_only=True)["model"], CHECKPOINT["model"]), "torch does not notice"
    both_refuse(checkpoint)


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        {},
        {"weight": torch.ones(2)},
        {"format": 2, **{key: value for key, value in CHECKPOINT.items() if key != "format"}},
        {key: value for key, value in CHECKPOINT.items() if key != "duals"},
        {**CHECKPOINT, "model": 3},
        {**CHECKPOINT, "epoch": "three"},
        {**CHECKPOINT, "best": 2},
    ],
    ids=["list", "empty", "state_dict", "later format", "no duals", "no model", "epoch", "best"],
)
def test_a_foreign_torch_file_is_not_a_checkpoint(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "best.pt"
    torch.save(content, path)
    with pytest.raises(InputError, match=r"best.pt is not a checkpoint of a pdqat run"):
        load_checkpoint(path)


def test_a_tensor_in_place_of_an_entry_is_refused_without_a_word_of_torch(
    checkpoint: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = load_checkpoint(checkpoint)
    for key in ("best", "model", "duals"):
        with pytest.raises(InputError, match="is not a checkpoint of a pdqat run"):
            as_checkpoint({**content, key: torch.ones(2, 2, dtype=torch.int64)}, checkpoint)
    assert capfd.readouterr().err == ""


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no checkpoint .*last.pt"):
        load_checkpoint(tmp_path / "last.pt")
    for name in ("model.safetensors", "model.pt"):
        with pytest.raises(InputError, match=f"there is no file .*{name} with weights"):
            load_weights(tmp_path / name)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.pt").mkdir()
    both_refuse(tmp_path / "folder.pt", "damaged or not a torch file|there is no (file|checkpoint)")


def test_weights_are_read_from_safetensors_and_torch_files(tmp_path: Path) -> None:
    weights = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)).state_dict()
    save_file(weights, tmp_path / "model.safetensors")
    torch.save(weights, tmp_path / "model.pt")
    torch.save(weights, tmp_path / "legacy.bin", _use_new_zipfile_serialization=False)
    for name in ("model.safetensors", "model.pt", "legacy.bin"):
        assert equal(load_weights(tmp_path / name), weights)


def test_weights_of_a_run_are_those_of_the_plain_model(checkpoint: Path) -> None:
    assert load_weights(checkpoint).keys() == {"conv.weight", "norm.weight"}


@pytest.mark.parametrize(
    "content",
    [
        [torch.ones(1)],
        {"weight": 3.0},
        {"state_dict": {"weight": torch.ones(1)}},
        {"format": 1},
        {"format": 1, "model": 3},
    ],
)
def test_a_torch_file_without_weights_is_refused(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"model.pt holds no state_dict: it must be a dictionary of names and tensors"):
        load_weights(tmp_path / "model.pt")


@pytest.mark.parametrize("content", [b"", b"\x08", b"\xff" * 100, b"\x10\0\0\0\0\0\0\0{not json at all"])
def test_a_damaged_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"can't read the weights in .*model.safetensors"):
        load_weights(tmp_path / "model.safetensors")


def test_an_archive_that_is_no_torch_file_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("holiday.jpg", b"\xff\xd8")
    (tmp_path / "model.pt").write_bytes(buffer.getvalue())
    both_refuse(tmp_path / "model.pt")


def test_expanded_tensors_are_written_out(tmp_path: Path) -> None:
    """A file with tensors larger than their storage would be refused when it is read."""
    example = {"mask": torch.ones(1).expand(4), "pair": (torch.zeros(2), torch.ones(1, 1).expand(3, 2))}
    save_example(tmp_path / "example.pt", example)
    read = load_example(tmp_path / "example.pt")
    torch.testing.assert_close(read, example, rtol=0, atol=0)
