"""What MLPerf Tiny's ResNet-8 takes of a microcontroller as plain C, and how fast the same C is on this machine.

    python benchmarks/microcontroller.py             writes, verifies and measures on the emulated Arm Cortex-M3
    python benchmarks/microcontroller.py --speed     times the C on the host; nothing else may run on the machine
    python benchmarks/microcontroller.py --table     prints what is finished

The pre-activation ResNet-8 of width 1 for 32 x 32 images, first and last layer at 8 bits, all others at 8, 4, 2, 1 bits
or under a mixed plan. Its weights are drawn at random and its norms have seen random images: what a network has learned
matters little for flash and RAM, and for instructions by a tenth or two. Instruction counts are the same on every host,
whatever else it does. The numbers go to results/microcontroller.json, with those of earlier runs on a host, and the
load that the machine had.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import RESULTS, commit, machine, write
from rich.console import Console
from torch import Tensor

from pdqat import Network, prepare
from pdqat.deployment.bench import ROUNDS, Spread, interleaved
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.export import export, write_float
from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.formats.c_program import Program
from pdqat.deployment.formats.c_session import FLAGS, Library
from pdqat.deployment.integer.names import INPUT
from pdqat.deployment.microcontroller.beside import write_float32
from pdqat.deployment.microcontroller.measurement import CoreMeasurement, measure_on_core, show_measured
from pdqat.deployment.microcontroller.toolchain import COMPILER, EMULATOR, check_installed
from pdqat.deployment.runtimes import ONNX_RUNTIME, OPENVINO, Arrays, Session, load
from pdqat.models.preresnet import preresnet8

NAME = "microcontroller"
MIXED = {"stages.0.*": "4", "stages.1.*": "2", "stages.2.*": "1"}
"""Fewer bits where there are more weights: the last stage has three quarters of them."""
NETWORKS: dict[str, tuple[str, dict[str, str]]] = {
    **{f"{bits} bit{'s' * (bits != '1')}": (bits, {}) for bits in ("8", "4", "2", "1")},
    "mixed 4, 2, 1": ("2", MIXED),
}
FLOAT32 = "float32"
VERIFIED_IMAGES = 8


def images(count: int) -> Tensor:
    """Random bytes, from 0 to 1."""
    drawn = torch.randint(256, (count, 3, 32, 32), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    return drawn.float() / 255


def network(name: str) -> Network:
    """One of NETWORKS, with norms that have seen images."""
    torch.manual_seed(0)
    bits, layers = NETWORKS[name]
    example = images(VERIFIED_IMAGES)
    net = prepare(
        preresnet8(), example, bits, layers=layers, ends="8", quantizer="normal-bytes", integer_sums=True
    ).train()
    with torch.no_grad():
        for view in (None, *net.plans):
            with net.under(view):
                for _ in range(10):
                    net(example)
    return net.eval()


def labelled(net: Network) -> list[tuple[Tensor, Tensor]]:
    """Images, each with what the network makes of it."""
    with torch.no_grad(), net.under(next(iter(net.plans))):
        return [(net.example, net(net.example).argmax(1))]


def measured_on_core(console: Console) -> dict[str, dict[str, Any]]:
    """Every network on the emulated core, verified on the host first; and the float32 one."""
    check_installed()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in NETWORKS:
            console.print(f"{name}: writing and measuring")
            net, folder = network(name), Path(scratch) / name
            report = export(net, folder, net.example, check=labelled(net), format="c")
            assert not report.real_layers
            rows[name] = asdict(measure_on_core(folder))
        console.print(f"{FLOAT32}: writing and measuring")
        net = network("8 bits")
        write_float32(net, net.example, Path(scratch) / FLOAT32)
        rows[FLOAT32] = asdict(measure_on_core(Path(scratch) / FLOAT32))
    return rows


class OnHost:
    """A C folder in this process, on bytes."""

    def __init__(self, net: Network, folder: Path, scratch: Path) -> None:
        self.inputs = [INPUT]
        model = Deployable.of(net, None, net.example)
        written = Model(Program(model.frozen.module, model.read_example))
        scratch.mkdir()
        self._library = Library(written, folder, scratch, observed=False, flags=(*FLAGS, "-march=native"))

    def run(self, inputs: Arrays) -> Arrays:
        """The scores."""
        return {"scores": self._library.run_numbers(inputs[INPUT])[0]}


def timed_on_host(console: Console) -> dict[str, Any]:
    """Seconds of an image, one thread, all files in turns."""
    sessions: dict[str, Session] = {}
    inputs: dict[str, Mapping[str, np.ndarray]] = {}
    one = images(1).numpy()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in NETWORKS:
            console.print(f"{name}: writing")
            net, written = network(name), folder / name
            export(net, written, net.example, check=labelled(net), format="c")
            sessions[f"C, {name}"] = OnHost(net, written, folder / f"{name} compiled")
            inputs[f"C, {name}"] = {INPUT: np.rint(one * 255).astype(np.uint8)}
            if name == "8 bits":
                export(net, folder / "int8.onnx", net.example, check=labelled(net))
                sessions["ONNX Runtime, 8 bits"] = load(ONNX_RUNTIME, folder / "int8.onnx")
                write_float(net, folder / "float32.onnx", net.example)
                sessions["ONNX Runtime, float32"] = load(ONNX_RUNTIME, folder / "float32.onnx")
            if name == "1 bit":
                export(net, folder / "binary.xml", net.example, check=labelled(net))
                sessions["OpenVINO, 1 bit, binary kernel"] = load(OPENVINO, folder / "binary.xml")
        inputs |= {name: {INPUT: one} for name in sessions if name not in inputs}
        console.print("timing")
        seconds = interleaved(sessions, inputs, ROUNDS)
    float32 = seconds["ONNX Runtime, float32"]
    return {
        name: {
            "seconds": asdict(Spread.of(times)),
            "times_float32": asdict(Spread.of([theirs / mine for mine, theirs in zip(times, float32, strict=True)])),
        }
        for name, times in seconds.items()
    }


def version(tool: str) -> str:
    """The first line that a tool says of itself."""
    told = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0]


def finished() -> dict[str, Any]:
    """What was measured before."""
    path = RESULTS / f"{NAME}.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


def show(content: Mapping[str, Any], console: Console) -> None:
    """The tables."""
    if "core" in content:
        rows = {name: CoreMeasurement(**row) for name, row in content["core"]["networks"].items()}
        console.print(show_measured(rows), highlight=False, markup=False, soft_wrap=True)
    for name, row in content.get("host", {}).get("files", {}).items():
        milliseconds, ratio = Spread(**row["seconds"]).times(1000), Spread(**row["times_float32"])
        console.print(f"{name}: {milliseconds} ms, {ratio} times float32 (n = {ratio.n})", markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", action="store_true", help="time the C on the host instead")
    parser.add_argument("--table", action="store_true", help="print what is finished")
    options = parser.parse_args()
    kept = ("core", "host", "host_before")
    console, content = Console(), {key: value for key, value in finished().items() if key in kept}
    when: dict[str, Any] = {"commit": commit(), "machine": machine()}
    if options.speed:
        torch.set_num_threads(1)
        content["host_before"] = [*content.get("host_before", []), *([content["host"]] if "host" in content else [])]
        when["load"] = os.getloadavg()
        content["host"] = {**when, "flags": [*FLAGS, "-march=native"], "files": timed_on_host(console)}
    elif not options.table:
        tools = {"compiler": version(COMPILER), "emulator": version(EMULATOR)}
        content["core"] = {**when, **tools, "networks": measured_on_core(console)}
    if not options.table:
        write(NAME, content)
    show(content, console)


if __name__ == "__main__":
    main()
