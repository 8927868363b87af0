"""How fast exported files are beside float32, on the kind of processor at hand; and where both runtimes' time goes.

Speed does not depend on what a network has learned, so all are untrained, with norms that have seen random images: the
pre-activation ResNet-20 of width 1 at 8, 4, 2 and 1 bits and under the mixed plan of results/deploy.json, of width 5
at 8 and 1 bits, with the options of the preset `deployable`. Each is timed in turns with the float32 file of the same
network, in every installed runtime. Other kinds of processors keep their numbers; what this commit has finished for
this kind is not measured again.
"""

import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import RESULTS, commit, machine
from rich.table import Table
from torch import Tensor

from pdqat import Network, prepare
from pdqat.deployment.bench import measure
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.export import write_float
from pdqat.deployment.formats.onnx_file import to_onnx
from pdqat.deployment.formats.openvino_file import save, to_openvino
from pdqat.deployment.processors import kind_of_processor
from pdqat.disk import write_atomically
from pdqat.models.preresnet import preresnet
from pdqat.terminal import PlainConsole

FILE = RESULTS / "deploy.json"
WIDTHS = {1: ("8", "4", "2", "1", "mixed"), 5: ("8", "1")}
BATCHES = {1: (1, 64), 5: (1, 16)}
BINARY = ("1",)
"""Networks for which OpenVINO has a kernel of its own."""
PROFILED = ("8", "4", "2")
PROFILED_RUNS = {1: 200, 64: 10}
"""By batch."""


def images(count: int) -> Tensor:
    """Random bytes, from 0 to 1."""
    drawn = torch.randint(256, (count, 3, 32, 32), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    return drawn.float() / 255


@torch.no_grad()
def untrained(name: str, width: int) -> Network:
    """A network with norms that have seen images, as `--preset deployable` would make it."""
    torch.manual_seed(0)
    example, layers = images(32), mixed_plan() if name == "mixed" else {}
    net = prepare(
        preresnet(20, width),
        example,
        "2" if name == "mixed" else name,
        layers=layers,
        ends="8",
        quantizer="normal-bytes",
        integer_sums=True,
    ).train()
    for view in (None, *net.plans):
        with net.under(view):
            for _ in range(10):
                net(example)
    return net.eval()


def mixed_plan() -> dict[str, str]:
    """Of the mixed network that was trained."""
    plans = {entry["name"]: entry["plan"] for entry in json.loads(FILE.read_text())["networks"]}
    return {str(layer): str(bits) for layer, bits in plans["mixed"].items()}


def time_all(console: PlainConsole) -> None:
    """Add this kind of processor to the results, network by network."""
    kind = kind_of_processor()
    for width, names in WIDTHS.items():
        for name in names:
            content = json.loads(FILE.read_text())
            here = content["speeds"].setdefault(kind, {})
            key = f"{name}, width {width}"
            if here.get(key, {}).get("commit") == commit():
                continue
            here[key] = {"commit": commit(), "machine": machine(), **_timed(name, width, console)}
            write_atomically(FILE, (json.dumps(content, indent=1) + "\n").encode())


def _timed(name: str, width: int, console: PlainConsole) -> dict[str, Any]:
    console.print(f"{name}, width {width}: writing")
    net = untrained(name, width)
    model, rows = Deployable.of(net, None, net.example), []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files, reference = [folder / "model.onnx"], folder / "float32.onnx"
        files[0].write_bytes(to_onnx(model.frozen.module, model.read_example).SerializeToString())
        write_float(net, reference, net.example)
        if name in BINARY:
            files.append(folder / "model.xml")
            save(to_openvino(model.frozen.module, model.read_example, pack=False), files[1])
        for file in files:
            tell = lambda what, file=file: console.print(f"{name}, width {width}: {what}, {file.suffix[1:]}")  # noqa: E731
            timed = measure(file, reference, images(8), tell, BATCHES[width])
            rows += [{"format": "openvino" if file.suffix == ".xml" else "onnx", **asdict(each)} for each in timed]
        profiles = {} if width > 1 or name not in PROFILED else _profiles(files[0], reference)
    return {"rows": rows, **({"profiles": profiles} if profiles else {})}


def _profiles(file: Path, reference: Path) -> dict[str, Any]:
    """Microseconds of the nodes of both runtimes, one thread, by kind of node."""
    files = {"integer": file, "float32": reference}
    runtimes = {"": profile, ", OpenVINO": profile_openvino}
    return {
        f"batch {batch}{runtime}": {name: profiled(path, batch) for name, path in files.items()}
        for batch in PROFILED_RUNS
        for runtime, profiled in runtimes.items()
    }


def profile(path: Path, batch: int) -> dict[str, Any]:
    """By kind of node: how many there are, and their microseconds together, as medians over runs."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as scratch:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_profiling, options.profile_file_prefix = True, f"{scratch}/profile"
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        given = {session.get_inputs()[0].name: np.ascontiguousarray(images(batch).numpy())}
        for _ in range(PROFILED_RUNS[batch]):
            session.run(None, given)
        events = json.loads(Path(session.end_profiling()).read_text())
    nodes: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            nodes[event["args"]["op_name"], event["name"]].append(event["dur"])
    return _by_kind(nodes)


def profile_openvino(path: Path, batch: int) -> dict[str, Any]:
    """As `profile`, of OpenVINO; kinds of nodes have their kernels behind them."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": True}
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    given = np.ascontiguousarray(images(batch).numpy())
    nodes: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(PROFILED_RUNS[batch]):
        request.infer({0: given})
        for node in request.profiling_info:
            if node.status == openvino.ProfilingInfo.Status.EXECUTED:
                microseconds = node.real_time.total_seconds() * 1e6
                nodes[f"{node.node_type} {node.exec_type}", node.node_name].append(microseconds)
    return _by_kind(nodes)


def _by_kind(nodes: Mapping[tuple[str, str], list[float]]) -> dict[str, Any]:
    """Of microseconds by kind and name of a node, the kinds that take longest first."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for (kind, _), times in nodes.items():
        kinds[kind].append(statistics.median(times))
    ordered = sorted(kinds.items(), key=lambda item: -sum(item[1]))
    return {kind: {"nodes": len(times), "microseconds": sum(times)} for kind, times in ordered}


def show_speeds(speeds: Mapping[str, Any], console: PlainConsole) -> None:
    """A table for every kind of processor."""
    for kind, networks in speeds.items():
        table = Table(title=f"{kind}: times the speed of float32 in the same runtime, median and quartiles")
        for heading in ("bits", "format", "runtime", "threads", "batch", "times float32", "images/s"):
            table.add_column(heading)
        for name, network in networks.items():
            for row in network["rows"]:
                ratio = "{median:.2f} [{low:.2f}, {high:.2f}]".format(**row["ratio"])
                place = [name, *(str(row[key]) for key in ("format", "runtime", "threads", "batch"))]
                table.add_row(*place, ratio, f"{row['batch'] / row['integer']['median']:,.0f}")
        console.print(table)
        for name, network in networks.items():
            for batch, files in network.get("profiles", {}).items():
                for file, kinds in files.items():
                    told = ", ".join(f"{node} {each['microseconds']:,.0f}" for node, each in kinds.items())
                    console.print(f"{name}, {batch}, {file}, microseconds: {told}", soft_wrap=True)
