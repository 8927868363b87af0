"""The formats of a file: how each is written, and verified in the runtimes that read it."""

import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from pdqat.errors import InputError
from pdqat.export.chosen import Chosen
from pdqat.export.runtimes import OPENVINO, Program, Session, load, needed
from pdqat.export.verify import Verified, verify
from pdqat.training.files import write_atomically

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Format:
    """One of FORMATS."""

    name: str
    suffixes: tuple[str, ...]
    """Of its files; the first is the one to name."""
    file: str
    """What it is called, unless told otherwise."""
    packs: bool
    """Whether it can store weights in the bits that they need."""
    about: str
    write: Callable[[Chosen, Path, bool], None]
    verify: Callable[[Chosen, Path, Tell], list[Verified]]

    @property
    def suffix(self) -> str:
        """Of the file to name."""
        return self.suffixes[0]


def format_of(path: Path) -> Format:
    """The format of a file that may be verified."""
    if path.suffix == ".pt2":
        raise InputError(f"{path.name} is a program of torch: it is not loaded, since that could run code")
    found = [each for each in FORMATS.values() if each.suffix == path.suffix]
    if not found:
        raise InputError(f"{path.name} does not end in .onnx or .xml, which says its format")
    return found[0]


def _write_onnx(chosen: Chosen, path: Path, pack: bool) -> None:
    from pdqat.export.onnx_file import to_onnx

    write_atomically(path, to_onnx(chosen.frozen.module, chosen.example, pack).SerializeToString())


def _verify_onnx(chosen: Chosen, path: Path, tell: Tell) -> list[Verified]:
    from pdqat.export.onnx_file import with_codes

    runtimes, found = needed(), []
    with tempfile.TemporaryDirectory() as folder:
        looking = Path(folder) / "codes.onnx"
        looking.write_bytes(with_codes(path, chosen.frozen.module, chosen.example).SerializeToString())
        for name in runtimes:
            tell(f"verifying in {name}")
            found.append(_verified(chosen, name, load(name, path), load(name, looking)))
    return found


def _write_openvino(chosen: Chosen, path: Path, pack: bool) -> None:
    from pdqat.export.openvino_file import save, to_openvino

    save(to_openvino(chosen.frozen.module, chosen.example, pack), path)


def _verify_openvino(chosen: Chosen, path: Path, tell: Tell) -> list[Verified]:
    from pdqat.export.openvino_file import save, with_codes

    with tempfile.TemporaryDirectory() as folder:
        looking = Path(folder) / "codes.xml"
        save(with_codes(path, chosen.frozen.module, chosen.example), looking)
        tell(f"verifying in {OPENVINO}")
        return [_verified(chosen, OPENVINO, load(OPENVINO, path), load(OPENVINO, looking))]


def _write_program(chosen: Chosen, path: Path, _: bool) -> None:
    batch = torch.export.Dim("batch", min=1)
    try:
        program = torch.export.export(chosen.frozen.module, (chosen.example,), dynamic_shapes=({0: batch},))
    except Exception as error:  # it raises many kinds
        raise InputError(f"torch.export can't take the model: {str(error).splitlines()[0]}") from error
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # about weights on other devices
        torch.export.save(program, buffer)
    write_atomically(path, buffer.getvalue())


def _verify_program(chosen: Chosen, path: Path, tell: Tell) -> list[Verified]:
    """Only ever of a file that was just written here."""
    tell("verifying the program")
    return [_verified(chosen, "torch", Program(torch.export.load(path)), None)]


def _verified(chosen: Chosen, name: str, session: Session, with_codes: Session | None) -> Verified:
    setup = chosen.setup
    return verify(name, session, with_codes, chosen.frozen, setup.net, setup.plan, setup.test_batches())


FORMATS = {
    each.name: each
    for each in (
        Format(
            "onnx",
            (".onnx",),
            "model.onnx",
            True,
            "integer kernels in ONNX Runtime and OpenVINO",
            _write_onnx,
            _verify_onnx,
        ),
        Format(
            "openvino",
            (".xml", ".bin"),
            "model.xml",
            True,
            "the same for OpenVINO alone, with its binary kernel at 1 bit",
            _write_openvino,
            _verify_openvino,
        ),
        Format("torch", (".pt2",), "model.pt2", False, "a program of torch.export", _write_program, _verify_program),
    )
}
