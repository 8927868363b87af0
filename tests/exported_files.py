"""Networks to export, and the check that their files are right in every runtime that is here."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pdqat import Network, prepare
from pdqat.batches import first_rows
from pdqat.deployment import runtimes
from pdqat.deployment.export import export, write_float


def prepared(model: nn.Module, inputs: Any, **options: Any) -> Network:
    torch.manual_seed(0)
    return prepare(model, inputs, 4, quantizer="uniform-channel", **options).eval()


def check_file(net: Network, inputs: Any, folder: Path, target: Any = None) -> None:
    """In every installed runtime, for more and fewer samples than the example has."""
    fewer, fewest = (first_rows((inputs, target), count) for count in (5, 1))
    report = export(net, folder / "model.onnx", first_rows(inputs, 2), check=[(inputs, target), fewer, fewest])
    assert [result.runtime for result in report.verified] == runtimes.installed()
    assert all(result.passes for result in report.verified)


def check_float_file(model: nn.Module, inputs: Any, folder: Path) -> None:
    """The full-precision view as a file."""
    net = prepared(model, inputs)
    write_float(net, folder / "float32.onnx", inputs)
    with torch.no_grad():
        wanted = net(inputs)
    made = runtimes.load("onnxruntime", folder / "float32.onnx").run(runtimes.arrays({"input": inputs}))["output"]
    torch.testing.assert_close(torch.from_numpy(made), wanted, rtol=1e-4, atol=1e-4)
