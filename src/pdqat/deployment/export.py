"""Export: write a network's file, verify it in the runtimes that are here, and only then give it its name."""

import copy
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pdqat.batches import Batches
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.following.calls import inputs_of
from pdqat.deployment.following.follow import follow
from pdqat.deployment.formats import Format, format_of, format_to_write
from pdqat.deployment.integer.layers import in_full_precision
from pdqat.deployment.report import ExportReport, describe
from pdqat.deployment.verify import Verified, verify
from pdqat.disk import as_path, write_atomically
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
        example: a few inputs, for their shapes: a tensor, a tuple or a dictionary, as the model takes them.
        check: batches of inputs and targets, such as a loader, on which the file is compared with the network. Where
            targets are classes, choices and accuracy are compared too.
        plan: one of the network's; by default its only one.
        format: a name of `pdqat.deployment.formats.FORMATS`: onnx, openvino, qonnx, torch.
        pack: store weights in the bits that they need.
        tell: called with what is being done.

    Returns:
        What was written and how it was verified; `print` shows it.

    Raises:
        InputError: it names the layer and operation that can't be exported, or says where the file fails.

    Example:
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
    tell("folding the network into integers")
    model = Deployable.of(net, plan, example)
    verified = _write_file(model, path, form, pack, check, tell)
    weights = (weight for name, weight in model.net.named_parameters() if ".views." not in name)
    return ExportReport(
        path,
        form.size(path),
        4 * sum(weight.numel() for weight in weights),
        verified,
        model.frozen.folded if form.in_integers else [],
        model.frozen.real_layers if form.in_integers else [],
    )


def verify_file(
    net: Network,
    plan: str | BitPlan | None,
    path: str | Path,
    example: Any,
    check: Batches,
    tell: Tell = say_nothing,
) -> list[Verified]:
    """A file that was exported from the network, in every installed runtime that reads its format."""
    path = Path(path)
    form = format_of(path)
    tell("folding the network into integers")
    return _verified(Deployable.of(net, plan, example), path, form, check, tell)


def write_float(net: Network, path: str | Path, example: Any) -> None:
    """The full-precision view as a float32 ONNX file, to compare with."""
    from pdqat.deployment.formats.onnx_file import to_onnx

    inputs = inputs_of(net, example)
    followed = follow(copy.deepcopy(net).float().cpu().eval(), inputs)
    file = to_onnx(in_full_precision(followed.module), tuple(followed.read(inputs).values()))
    write_atomically(Path(path), file.SerializeToString())


def _write_file(model: Deployable, path: Path, form: Format, pack: bool, check: Batches, tell: Tell) -> list[Verified]:
    """Write under a temporary name, verify, and give the file its name only if it passes."""
    unverified = path.with_name(f".unverified-{path.name}")
    try:
        form.write(model, unverified, pack)
        verified = _verified(model, unverified, form, check, tell)
        failed = next((result for result in verified if not result.passes), None)
        if failed is not None:
            raise InputError(f"{path} was not written, since it fails in {failed.runtime}: {describe(failed)}")
        _rename(unverified, path, form)
    finally:
        for suffix in form.suffixes:
            unverified.with_suffix(suffix).unlink(missing_ok=True)
    return verified


def _verified(model: Deployable, path: Path, form: Format, check: Batches, tell: Tell) -> list[Verified]:
    with ExitStack() as stack:
        opened = form.open(model, path, stack)
        tell(f"verifying in {' and '.join(file.runtime for file in opened)}")
        return verify(model, opened, check)


def _rename(unverified: Path, path: Path, form: Format) -> None:
    """Of two files the named one goes first and comes last: cut short, there is none beside another's weights."""
    if any(path.with_suffix(suffix).is_dir() for suffix in form.suffixes):
        raise InputError(f"{path} can't be written: there is a folder of that name, or of its .bin's")
    if len(form.suffixes) > 1:
        path.unlink(missing_ok=True)
    for suffix in reversed(form.suffixes):
        unverified.with_suffix(suffix).replace(path.with_suffix(suffix))
