"""Readers of graphs that a stranger may have exported."""

from pathlib import Path

import openvino
import torch
from torch import nn

from damaged import Reader
from exported_files import prepared
from pdqat.deployment.export import export
from pdqat.deployment.formats import format_of
from pdqat.deployment.runtimes import read_model

NAMES = ("ONNX", "OpenVINO")


def readers(folder: Path) -> dict[str, Reader]:
    """As far as a file is read before it is run."""
    inputs, core = torch.rand(2, 3), openvino.Core()
    net = prepared(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), inputs)
    files = folder / "model.onnx", folder / "model.xml"
    for file in files:
        export(net, file, inputs, check=[(inputs, None)])
    onnx, xml = (file.read_bytes() for file in files)
    return {
        "ONNX": Reader.of_file(files[0], format_of, onnx),
        "OpenVINO": Reader.of_file(files[1], lambda file: read_model(core, file), xml),
    }
