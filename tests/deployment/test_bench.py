"""`measure`: a file in turns with its float32 export."""

import io
from pathlib import Path

import pytest
import torch
from torch import nn

from deployed_networks import samples
from pdqat import InputError, prepare
from pdqat.deployment import runtimes
from pdqat.deployment.bench import Spread, measure, show_timed
from pdqat.deployment.export import export, write_float
from pdqat.deployment.formats import check_runnable
from pdqat.process import cores
from pdqat.terminal import PlainConsole


def test_a_file_is_timed_beside_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = samples(4, 6)
    net = prepare(nn.Sequential(*(nn.Linear(6, 6) for _ in range(3))), x, 2, quantizer="uniform")
    file, float32 = tmp_path / "model.onnx", tmp_path / "float32.onnx"
    export(net, file, x, check=[(x, None)])
    write_float(net, float32, x)
    told: list[str] = []
    timed = measure(file, float32, x, told.append, batches=(1, 3), rounds=3)
    assert [(row.runtime, row.threads, row.batch) for row in timed] == [
        (name, threads, batch) for name in runtimes.installed() for threads in sorted({1, cores()}) for batch in (1, 3)
    ]
    assert all(row.integer.median > 0 and row.float32.n == row.ratio.n == 3 for row in timed)
    assert told[0] == "timing onnxruntime, 1 thread, batch 1"
    console = PlainConsole(file=io.StringIO(), width=200)
    show_timed(timed, console)
    assert isinstance(console.file, io.StringIO)
    assert "times float32" in console.file.getvalue()
    monkeypatch.setattr("pdqat.deployment.runtimes.installed", list)
    with pytest.raises(InputError, match=r"pip install 'pdqat\[export\]'"):
        measure(file, float32, x)


def test_a_qonnx_file_is_not_timed(tmp_path: Path) -> None:
    x = samples(4, 6)
    net = prepare(nn.Sequential(*(nn.Linear(6, 6) for _ in range(3))), x, 2, quantizer="uniform")
    export(net, tmp_path / "model.onnx", x, check=[(x, None)], format="qonnx")
    with pytest.raises(InputError, match="is a qonnx file, which no runtime runs as it is: bench the onnx one"):
        check_runnable(tmp_path / "model.onnx")


def test_a_spread_is_median_and_quartiles() -> None:
    spread = Spread.of([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (spread.median, spread.low, spread.high, spread.n) == (3, 2, 4, 5)
    assert str(spread.times(2)) == "6.00 [4.00, 8.00]"
    assert str(Spread.of([1.0])) == "1.00 [1.00, 1.00]"
