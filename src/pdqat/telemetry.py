"""What the libraries below would tell their makers about this machine, turned off unless a person turned it on."""

import os
import sys

SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}
"""Of ONNX Runtime, Ray, MLflow and Weights & Biases, which read them when they are loaded."""


def turn_off() -> None:
    """Before any of these, or OpenVINO, is imported, for this process and those that it starts.

    ONNX Runtime would keep a number for this machine and files of events, OpenVINO would send one on every import. A
    switch that the environment already sets stays as it is.
    """
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
    # OpenVINO has no such switch, but does without the package that sends. None makes its import fail.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
