"""Export: write a network's file, verify it in the runtimes that are here, and only then give it its name."""

import copy
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from pdqat.batches import Batches, pairs
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.following.calls import inputs_of
from pdqat.deployment.following.follow import follow
from pdqat.deployment.footprint import Footprint
from pdqat.deployment.formats import Format, format_of, format_to_write
from pdqat.deployment.formats.c_place import check_replaceable, replace_folder
from pdqat.deployment.integer.layers import in_full_precision
from pdqat.deployment.report import ExportReport, describe
from pdqat.deployment.verify import Verified, verify
from pdqat.disk import as_path, check_target, remove_file, write_atomically
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.precision import BitPlan

Tell = Callable[[str], None]


def say_nothing(_: str) -> None:
    """Where nobody waits."""


def export(
    net: Network,
    path: str | Path,
    example: Any,
    *,
    check: Batches,
    plan: str | BitPlan | None = None,
    format: str | None = None,  # noqa: A002 - what it is called on the command line
    pack: bool = False,
    tell: Tell = say_nothing,
) -> ExportReport:
    """Write a network under a plan as a file, and verify it in every installed runtime that reads the format.

    The file gets its name only if it passes (see `pdqat.deployment.verify`); until then a file of that name stays as it
    is. The network is left as it was, in its modes and on its device.

    Args:
        net: the network, as `prepare` made it, trained.
        path: of the file; its ending says the format, unless `format` does: .onnx, .xml (OpenVINO), .pt2 (torch).
            For the format c of a folder, which is replaced only if it is another one of the kind.
        example: a few inputs, for their shapes: a tensor, a tuple or a dictionary, as the model takes them.
        check: batches of inputs and targets, such as a loader, on which the file is compared with the network. Where
            targets are classes, choices and accuracy are compared too.
        plan: one of the network's; by default its only one.
        format: a name of `pdqat.deployment.formats.FORMATS`: onnx, openvino, qonnx, torch, c.
        pack: store weights in the bits that they need.
        tell: called with what is being done.

    Returns:
        What was written and how it was verified; `print` shows it.

    Raises:
        InputError: it names the layer and operation that can't be exported, or says where the file fails.

    Examples:
        >>> import pdqat, tempfile, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> net = pdqat.prepare(model, x, bits=4, quantizer="uniform")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = pdqat.export(net, f"{folder}/model.onnx", x, check=[(x, y)])
        >>> all(result.passes for result in report.verified)
        True
    """
    path = as_path(path, "the file")
    form = format_to_write(path, format)
    if pack and not form.packs:
        raise InputError(f"packing is for formats that hold integer weights, onnx and openvino, not for {form.name}")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} into")
    if form.is_folder:
        check_replaceable(path)
    else:
        for suffix in form.suffixes:
            check_target(path.with_suffix(suffix))
    tell("folding the network into integers")
    model = Deployable.of(net, plan, example)
    size, footprint, verified = _write_file(model, path, form, pack, check, tell)
    weights = (weight for name, weight in model.net.named_parameters() if ".views." not in name)
    return ExportReport(
        path,
        size,
        4 * sum(weight.numel() for weight in weights),
        verified,
        model.frozen.folded if form.in_integers else [],
        model.frozen.real_layers if form.in_integers else [],
        form.in_integers and model.frozen.in_integers,
        footprint,
    )


def verify_file(
    net: Network,
    plan: str | BitPlan | None,
    path: str | Path,
    example: Any,
    check: Batches,
    tell: Tell = say_nothing,
    close: int | None = None,
) -> list[Verified]:
    """A file that was exported from the network, in every installed runtime that reads its format.

    Every code of the first `close` images is compared, of 500 if that is None, and what all of them are taken for.
    """
    path = Path(path)
    form = format_of(path)
    tell("folding the network into integers")
    return _verified(Deployable.of(net, plan, example), path, form, check, tell, close)


def write_float(net: Network, path: str | Path, example: Any) -> None:
    """The full-precision view as a float32 ONNX file, to compare with."""
    from pdqat.deployment.formats.onnx_file import to_onnx

    inputs = inputs_of(net, example)
    followed = follow(copy.deepcopy(net).float().cpu().eval(), inputs)
    file = to_onnx(in_full_precision(followed.module), tuple(followed.read(inputs).values()))
    write_atomically(Path(path), file.SerializeToString())


def _write_file(
    model: Deployable, path: Path, form: Format, pack: bool, check: Batches, tell: Tell
) -> tuple[int, Footprint | None, list[Verified]]:
    """Write into a folder of this process alone, verify, and bring the file to its place only if it passes.

    Returns the size in bytes, what it takes on a machine without a runtime, and what was verified.
    """
    batches = pairs(check)
    first = next(batches, None)
    samples = model.samples(model.example if first is None else first[0])
    nearby = path.parent if form.is_folder else None  # a folder is moved by its name, a file by its content
    with tempfile.TemporaryDirectory(dir=nearby, prefix=".unverified-") as scratch:
        unverified = Path(scratch) / path.name
        footprint = form.write(model, unverified, pack, samples)
        verified = _verified(model, unverified, form, [] if first is None else chain([first], batches), tell)
        failed = next((result for result in verified if not result.passes), None)
        if failed is not None:
            raise InputError(f"{path} was not written, since it fails in {failed.runtime}: {describe(failed)}")
        size = form.size(unverified)
        _move(unverified, path, form)
        return size, footprint, verified


def _verified(
    model: Deployable, path: Path, form: Format, check: Batches, tell: Tell, close: int | None = None
) -> list[Verified]:
    with ExitStack() as stack:
        opened = form.open(model, path, stack)
        tell(f"verifying in {' and '.join(file.runtime for file in opened)}")
        return verify(model, opened, check, close)


def _move(unverified: Path, path: Path, form: Format) -> None:
    """Of two files the named one goes first and comes last: cut short, there is none beside another's weights."""
    if form.is_folder:
        replace_folder(unverified, path)
        return
    if len(form.suffixes) > 1:
        remove_file(path)
    for suffix in reversed(form.suffixes):
        write_atomically(path.with_suffix(suffix), unverified.with_suffix(suffix).read_bytes())
