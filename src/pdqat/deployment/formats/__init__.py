"""The formats of a file: how each is written, and opened in the runtimes that read it."""

import io
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from pdqat.deployment.deployable import Deployable, Samples
from pdqat.deployment.following.calls import of_two_or_more
from pdqat.deployment.footprint import Footprint
from pdqat.deployment.integer.graph import output_names
from pdqat.deployment.runtimes import ONNX_RUNTIME, OPENVINO, Program, load, needed
from pdqat.deployment.verify import Opened
from pdqat.deployment.witness import CodesSession, GridSession, ReferenceCodes
from pdqat.disk import write_atomically
from pdqat.errors import InputError


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
    write: Callable[[Deployable, Path, bool, Samples], Footprint | None]
    """With the weights packed or not; the samples are some of those that it is verified on. Says what the network takes
    where there is no runtime, if the format is for such machines."""
    open: Callable[[Deployable, Path, ExitStack], list[Opened]]
    """The file in every runtime that reads it; what is needed meanwhile is kept by the stack."""
    is_folder: bool = False

    @property
    def suffix(self) -> str:
        """Of the file to name."""
        return self.suffixes[0]

    def size(self, path: Path) -> int:
        """Of all of its files, in bytes."""
        if self.is_folder:
            return sum(file.stat().st_size for file in path.iterdir())
        return sum(path.with_suffix(suffix).stat().st_size for suffix in self.suffixes)


def format_to_write(path: Path, name: str | None) -> Format:
    """The format of that name, or by the ending of a path: the first that has it."""
    if name is not None and name not in FORMATS:
        raise InputError(f"unknown format {name!r}; choose one of {', '.join(FORMATS)}")
    by_ending = [form for form in FORMATS.values() if not form.is_folder and form.suffix == path.suffix]
    if name is None and not by_ending:
        raise InputError(f"{path.name} does not end in .onnx, .xml or .pt2, which says its format, and none is named")
    form = by_ending[0] if name is None else FORMATS[name]
    if not form.is_folder and path.suffix != form.suffix:
        raise InputError(f"{path.name} must end in {form.suffix}, since the format is {form.name}")
    return form


def format_of(path: Path) -> Format:
    """The format of a file or folder that may be verified."""
    if path.is_dir():
        if not (path / "model.c").is_file():
            raise InputError(f"{path} is a folder without a model.c: it is no format that can be verified")
        return FORMATS["c"]
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if path.suffix == ".pt2":
        raise InputError(f"{path.name} is a program of torch: it is not loaded, since that could run code")
    if path.suffix == ".onnx":
        from pdqat.deployment.formats.onnx_file import read_onnx
        from pdqat.deployment.formats.qonnx_file import DOMAIN

        is_qonnx = any(node.domain == DOMAIN for node in read_onnx(path).graph.node)
        return FORMATS["qonnx" if is_qonnx else "onnx"]
    if path.suffix != ".xml":
        raise InputError(f"{path.name} does not end in .onnx or .xml, which says its format")
    return FORMATS["openvino"]


def check_runnable(path: Path) -> None:
    """Refuse a file that no runtime runs as it is."""
    form = format_of(path)
    if not form.in_integers:
        raise InputError(f"{path} is a {form.name} file, which no runtime runs as it is: bench the onnx one")


def _write_onnx(model: Deployable, path: Path, pack: bool, _: Samples) -> None:
    from pdqat.deployment.formats.onnx_file import to_onnx

    write_atomically(path, to_onnx(model.frozen.module, model.read_example, pack).SerializeToString())


def _open_onnx(model: Deployable, path: Path, stack: ExitStack) -> list[Opened]:
    from pdqat.deployment.formats.onnx_file import with_codes

    runtimes = needed()
    looking = _scratch(stack) / "codes.onnx"
    looking.write_bytes(with_codes(path, model.frozen.module, model.read_example).SerializeToString())
    return [Opened(name, load(name, path), CodesSession(load(name, looking), model.frozen)) for name in runtimes]


def _write_openvino(model: Deployable, path: Path, pack: bool, _: Samples) -> None:
    from pdqat.deployment.formats.openvino_file import save, to_openvino

    save(to_openvino(model.frozen.module, model.read_example, pack), path)


def _open_openvino(model: Deployable, path: Path, stack: ExitStack) -> list[Opened]:
    from pdqat.deployment.formats.openvino_file import save, with_codes

    looking = _scratch(stack) / "codes.xml"
    save(with_codes(path, model.frozen.module, model.read_example), looking)
    return [Opened(OPENVINO, load(OPENVINO, path), CodesSession(load(OPENVINO, looking), model.frozen))]


def _write_qonnx(model: Deployable, path: Path, _: bool, __: Samples) -> None:
    from pdqat.deployment.formats.qonnx_file import to_qonnx

    write_atomically(path, to_qonnx(model).SerializeToString())


def _open_qonnx(model: Deployable, path: Path, stack: ExitStack) -> list[Opened]:
    from pdqat.deployment.formats.onnx_file import read_onnx
    from pdqat.deployment.formats.qonnx_file import with_codes
    from pdqat.deployment.formats.quant_functions import with_functions

    folder = _scratch(stack)
    looking, read, added = with_codes(path, model)
    for name, file in (("file.onnx", read_onnx(path)), ("codes.onnx", looking)):
        (folder / name).write_bytes(with_functions(file).SerializeToString())
    plain, shown = (load(ONNX_RUNTIME, folder / name) for name in ("file.onnx", "codes.onnx"))
    return [
        Opened(
            ONNX_RUNTIME,
            plain,
            GridSession(shown, output_names(model.followed.module.graph), read, added),
            in_integers=False,
        )
    ]


def _write_program(model: Deployable, path: Path, _: bool, __: Samples) -> None:
    batch, example = torch.export.Dim("batch", min=1), of_two_or_more(model.read_example)
    module = model.frozen.module  # which says itself what can't be exported
    try:
        program = torch.export.export(module, example, dynamic_shapes=tuple({0: batch} for _ in example))
    except Exception as error:  # it raises many kinds
        raise InputError(f"torch.export can't take the model: {str(error).splitlines()[0]}") from error
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # about weights on other devices
        torch.export.save(program, buffer)
    write_atomically(path, buffer.getvalue())


def _open_program(model: Deployable, path: Path, _: ExitStack) -> list[Opened]:
    """Only ever a file that was just written here."""
    program = Program(torch.export.load(path), list(model.followed.reads), model.frozen.outputs)
    return [Opened("torch", program, ReferenceCodes(model.frozen))]


def _write_c(model: Deployable, path: Path, _: bool, samples: Samples) -> Footprint:
    from pdqat.deployment.formats.c_folder import c_model, write_folder

    written = c_model(model)
    write_folder(written, next(iter(samples.read.values())), path)
    return written.footprint


def _open_c(model: Deployable, path: Path, stack: ExitStack) -> list[Opened]:
    from pdqat.deployment.formats.c_folder import c_model, check_program
    from pdqat.deployment.formats.c_session import RUNTIME, Library

    written, folder = c_model(model), _scratch(stack)
    check_program(written, path)
    plain, shown = (Library(written, path, folder, observed) for observed in (False, True))
    return [Opened(RUNTIME, plain, CodesSession(shown, model.frozen))]


def _scratch(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory()))


FORMATS = {
    form.name: form
    for form in (
        Format(
            name="onnx",
            about="integer kernels in ONNX Runtime and OpenVINO",
            suffixes=(".onnx",),
            file="model.onnx",
            in_integers=True,
            packs=True,
            write=_write_onnx,
            open=_open_onnx,
        ),
        Format(
            name="openvino",
            about="the same for OpenVINO alone, with its binary kernel at 1 bit",
            suffixes=(".xml", ".bin"),
            file="model.xml",
            in_integers=True,
            packs=True,
            write=_write_openvino,
            open=_open_openvino,
        ),
        Format(
            name="qonnx",
            about="the simulated network for FPGA tools",
            suffixes=(".onnx",),
            file="model-qonnx.onnx",
            in_integers=False,
            packs=False,
            write=_write_qonnx,
            open=_open_qonnx,
        ),
        Format(
            name="torch",
            about="a program of torch.export",
            suffixes=(".pt2",),
            file="model.pt2",
            in_integers=True,
            packs=False,
            write=_write_program,
            open=_open_program,
        ),
        Format(
            name="c",
            about="a folder of plain C for machines without a runtime",
            suffixes=("",),
            file="model-c",
            in_integers=True,
            packs=False,
            write=_write_c,
            open=_open_c,
            is_folder=True,
        ),
    )
}
