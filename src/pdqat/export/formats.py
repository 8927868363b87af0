"""The formats of a file: how each is written, and verified in the runtimes that read it."""

import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.export.chosen import Chosen
from pdqat.export.runtimes import ONNX_RUNTIME, OPENVINO, Program, Session, load, needed
from pdqat.export.verify import Verified, verify

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Format:
    """One of FORMATS."""

    name: str
    about: str
    suffixes: tuple[str, ...]
    """Of its files; the first is the one to name."""
    file: str
    """What it is called, unless told otherwise."""
    in_integers: bool
    """Whether it computes as the integer reference does."""
    packs: bool
    """Whether it can store weights in the bits that they need."""
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
    if path.suffix == ".onnx":
        from pdqat.export.onnx_file import read_onnx
        from pdqat.export.qonnx_file import DOMAIN

        is_qonnx = any(each.domain == DOMAIN for each in read_onnx(path).graph.node)
        return FORMATS["qonnx" if is_qonnx else "onnx"]
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


def _write_qonnx(chosen: Chosen, path: Path, _: bool) -> None:
    from pdqat.export.qonnx_file import to_qonnx

    model = to_qonnx(chosen.setup.net, chosen.setup.plan, chosen.example[:1])
    write_atomically(path, model.SerializeToString())


def _verify_qonnx(chosen: Chosen, path: Path, tell: Tell) -> list[Verified]:
    from pdqat.export.onnx_file import read_onnx
    from pdqat.export.qonnx_file import with_functions

    with tempfile.TemporaryDirectory() as folder:
        runnable = Path(folder) / "functions.onnx"
        runnable.write_bytes(with_functions(read_onnx(path)).SerializeToString())
        tell(f"verifying in {ONNX_RUNTIME}")
        return [_verified(chosen, ONNX_RUNTIME, load(ONNX_RUNTIME, runnable), None, in_integers=False)]


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


def _verified(
    chosen: Chosen, name: str, session: Session, with_codes: Session | None, in_integers: bool = True
) -> Verified:
    frozen = chosen.frozen if in_integers else None
    return verify(name, session, with_codes, frozen, chosen.simulated, chosen.setup.test_batches())


FORMATS = {
    each.name: each
    for each in (
        Format(
            name="onnx",
            about="integer kernels in ONNX Runtime and OpenVINO",
            suffixes=(".onnx",),
            file="model.onnx",
            in_integers=True,
            packs=True,
            write=_write_onnx,
            verify=_verify_onnx,
        ),
        Format(
            name="openvino",
            about="the same for OpenVINO alone, with its binary kernel at 1 bit",
            suffixes=(".xml", ".bin"),
            file="model.xml",
            in_integers=True,
            packs=True,
            write=_write_openvino,
            verify=_verify_openvino,
        ),
        Format(
            name="qonnx",
            about="the simulated network for FPGA tools",
            suffixes=(".onnx",),
            file="model-qonnx.onnx",
            in_integers=False,
            packs=False,
            write=_write_qonnx,
            verify=_verify_qonnx,
        ),
        Format(
            name="torch",
            about="a program of torch.export",
            suffixes=(".pt2",),
            file="model.pt2",
            in_integers=True,
            packs=False,
            write=_write_program,
            verify=_verify_program,
        ),
    )
}
