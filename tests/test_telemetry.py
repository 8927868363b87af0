"""Nothing that is started here speaks to a network or keeps a number for the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN_A_FILE = """
import sys
from pathlib import Path
from pdqat.deployment import runtimes
import onnx
from onnx import TensorProto, helper

sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", sides[:1], sides[1:])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), "file.onnx")
for name in runtimes.installed():
    runtimes.load(name, Path("file.onnx"))
    print(name)
"""
SWITCHES = ("ORT_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED", "CI", "TF_BUILD", "JENKINS_URL")
"""What would turn it off without us."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace shows what a process asks of the network")
def test_a_file_in_every_runtime_opens_no_connection_and_leaves_nothing_at_home(tmp_path: Path) -> None:
    """Watched from outside, with all processes that it starts."""
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in SWITCHES and "XDG" not in name}
    watched = ["strace", "-f", "--seccomp-bpf", "-e", "trace=socket,connect,sendto,sendmsg", "-o", str(log)]
    done = subprocess.run(
        [*watched, sys.executable, "-c", RUN_A_FILE],
        env={**kept, "HOME": str(home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["onnxruntime", "openvino"]
    assert [line for line in log.read_text().splitlines() if "(" in line] == []
    assert [path for path in home.rglob("*") if path.is_file()] == []
