"""Readers of the files of a run."""

import io
import json
from pathlib import Path
from typing import Any

import tomli_w

from configured import small
from damaged import Reader
from entries_of_runs import SUMMARY, epoch_entry
from own_problem import own_problem
from pdqat.commands.show import show_summary
from pdqat.config.presets import config_of, resolve_config
from pdqat.config.train_config import TrainConfig
from pdqat.description import describe
from pdqat.experiments.results import WrittenForm
from pdqat.precision import Precision
from pdqat.runs.folder import Run
from pdqat.runs.forms import ExportForm, PointForm, read_json, read_toml
from pdqat.runs.plan_file import PlanModel, check_model, read_plan, write_plan
from pdqat.terminal import PlainConsole

OLD_RUN = Path(__file__).parents[1] / "old_run"
CONFIGS = [
    tomli_w.dumps(small(tolerances={"stages.*": 0.1}, layers={"head": "8"}).as_options()).encode(),
    tomli_w.dumps(TrainConfig().as_options()).encode(),
    (OLD_RUN / "config.toml").read_bytes(),
]
MEASURED = {"train_accuracy": {"2-bit": 0.5}, "layer_distances": {"squared": {"conv": 0.1}}, "processor": "by hand"}
WRITTEN: dict[str, Any] = {
    **dict.fromkeys(WrittenForm.__struct_fields__, 1),
    **dict.fromkeys(("cell", "protocol", "recipe", "processor"), "any"),
    "amp": False,
}


POINT = {"average_bits": 2.5, "kilobytes": 3, "predicted_cost": 0.1, "accuracy": 0.5, "layers": {"conv": "2"}}
EXPORTS = {"model.onnx": {"bytes": 10, "sha256": "ab", "verified": [{"runtime": "onnxruntime"}]}}


def as_json(content: Any) -> bytes:
    return json.dumps(content).encode()


def readers(folder: Path) -> dict[str, Reader]:
    """Of all files, in a folder without a seal: what the seal would refuse has to be refused without it."""
    run = Run(folder)

    def of_a_run(content: bytes) -> TrainConfig:
        run.config_file.write_bytes(content)
        return config_of(run)

    def metrics(content: bytes) -> list[Any]:
        run.metrics_file.write_bytes(content)
        return run.metrics()

    def shown(content: bytes) -> None:
        run.summary_file.write_bytes(content)
        for width in (80, 200):
            show_summary(PlainConsole(file=io.StringIO(), width=width), run.summary(), str(folder))

    def plan(content: bytes) -> None:
        file = folder / "plan.toml"
        file.write_bytes(content)
        check_model(file, PlanModel("preresnet20", 1))
        read_plan(file)

    def sealed(content: bytes) -> bytes:
        (folder / "sealed").mkdir(exist_ok=True)
        inner = Run(folder / "sealed")
        inner.metrics_file.write_bytes(b"")
        inner.seal.file.write_bytes(content)
        return inner.seal.read(inner.metrics_file)

    def problem(content: bytes) -> dict[str, Any]:
        run.problem_file.write_bytes(content)
        return run.problem()

    def measured(content: bytes) -> dict[str, Any]:
        run.measured_file.write_bytes(content)
        return run.measured()

    whole = Run(folder / "whole")
    whole.path.mkdir()
    whole.write_metrics([])
    write_plan(folder / "plan.toml", {"conv": Precision(2, 2), "head": Precision(4, None)}, "by hand")
    lines = b"".join(as_json(epoch_entry(epoch)) + b"\n" for epoch in (1, 2))
    summaries = [as_json(SUMMARY), (OLD_RUN / "summary.json").read_bytes()]
    description = as_json({**describe(own_problem()), "training": {"lr": 0.1}})
    file = folder / "config.toml"
    return {
        "configuration": Reader(lambda content: resolve_config(None, read_toml(content, file), {}), CONFIGS),
        "configuration of a run": Reader(of_a_run, CONFIGS),
        "metrics": Reader(metrics, [lines, (OLD_RUN / "metrics.jsonl").read_bytes()]),
        "summary": Reader(shown, summaries),
        "plan": Reader(plan, [(folder / "plan.toml").read_bytes(), b'model = "preresnet20"\n[layers]\n"a.b" = 2\n']),
        "seal": Reader(sealed, [whole.seal.file.read_bytes()]),
        "problem": Reader(problem, [description]),
        "measured": Reader(measured, [as_json(MEASURED)]),
        "frontier": Reader(lambda content: read_json(content, list[PointForm], file), [as_json([POINT, POINT])]),
        "exports": Reader(lambda content: read_json(content, dict[str, ExportForm], file), [as_json(EXPORTS)]),
        "entry of another program": Reader(lambda it: read_json(it, WrittenForm, file), [as_json(WRITTEN)]),
    }


NAMES = (
    *("configuration", "configuration of a run", "metrics", "summary", "plan", "seal", "problem", "measured"),
    *("frontier", "exports", "entry of another program"),
)
