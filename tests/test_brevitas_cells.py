"""The column that Brevitas trains: the training around its layers, and where it is installed these too."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pdqat.experiments.protocol import Protocol
from pdqat.experiments.results import ENTRY, written_entries
from pdqat.models.preresnet import Clip, preresnet

SMALL = Protocol(
    "small",
    {
        "data": "digits",
        "model": "preresnet-small",
        "width": 1,
        "train_images": 64,
        "batch_size": 16,
        "epochs": 4,
        "schedule": "one-cycle",
        "lr": 1e-2,
        "norm_batches": 2,
    },
    1,
    "seconds",
)
WARM_EPOCHS = 2
"""0.4 of 4, rounded."""


@pytest.fixture
def benchmark_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a benchmark as its script would."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module


class Rounded(nn.Module):
    """clip and round by a straight-through gradient, with a learned step."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        x = (x / self.step).clamp(0, 1)
        return self.step * (x + (x.round() - x).detach())


def rounded(model: nn.Module, *_: int) -> nn.Module:
    """A stand-in for another library's layers."""
    for name, module in list(model.named_modules()):
        if isinstance(module, Clip):
            setattr(model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], Rounded())
    return model


class Stop:
    """Ends the process after so many epochs, as Ctrl-C does."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, said: str) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_cell_that_was_stopped_anywhere_ends_as_one_that_was_not(benchmark_of: Any, tmp_path: Path) -> None:
    train_cell = benchmark_of("brevitas_cells").train_cell
    whole = train_cell(tmp_path / "whole", SMALL, 2, 0, rounded)
    for epochs in (1, WARM_EPOCHS):  # in float, then in low precision
        with pytest.raises(KeyboardInterrupt):
            train_cell(tmp_path / "parts", SMALL, 2, 0, rounded, Stop(after=epochs))
    said: list[str] = []
    parts = train_cell(tmp_path / "parts", SMALL, 2, 0, rounded, said.append)
    assert [text.split(":")[0] for text in said] == ["epoch 4 of 4"]
    assert parts | {"seconds": 0} == whole | {"seconds": 0}
    assert whole["chosen_epoch"] > WARM_EPOCHS, "only epochs in low precision can be chosen"


def test_its_entry_is_shown_beside_the_suites_own(benchmark_of: Any, tmp_path: Path) -> None:
    entry = benchmark_of("brevitas_cells").train_cell(tmp_path, SMALL, 2, 3, rounded, [].append)
    assert entry["cell"] == "tiny-brevitas-2bit-seed3"
    assert (entry["recipe"], entry["bits"], entry["seed"]) == ("brevitas", 2, 3)
    assert written_entries("tiny", SMALL, tmp_path) == [entry]
    again = benchmark_of("brevitas_cells").train_cell(tmp_path, SMALL, 2, 3, rounded, pytest.fail)
    assert again == entry, "a finished cell is left as it is"


def test_a_folder_of_another_training_is_refused(benchmark_of: Any, tmp_path: Path) -> None:
    train_cell = benchmark_of("brevitas_cells").train_cell
    with pytest.raises(KeyboardInterrupt):
        train_cell(tmp_path, SMALL, 2, 0, rounded, Stop(after=1))
    other = Protocol("other", {**SMALL.options, "lr": 1e-3}, 1, "")
    with pytest.raises(Exception, match="holds another training than this one"):
        train_cell(tmp_path, other, 2, 0, rounded)
    assert not (tmp_path / "cells" / "tiny-brevitas-2bit-seed0" / ENTRY).exists()


def test_norms_get_the_mean_over_batches_and_keep_their_momentum(benchmark_of: Any) -> None:
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3))
    norm = model[0]
    assert isinstance(norm, nn.BatchNorm1d)
    batches = [(torch.tensor([[0.0, 1.0], [2.0, 1.0]]) + shift, None) for shift in (0, 2, 100)]
    benchmark_of("peer_training").estimate_norms(model, batches, 2)
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == [2.0, 2.0]
    assert norm.momentum == 0.3
    assert norm.training


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 4, 2, 1])
def test_brevitas_layers_have_no_more_values_than_bits_allow(bits: int, benchmark_of: Any, tmp_path: Path) -> None:
    pytest.importorskip("brevitas", reason="the extra 'benchmark'")
    quantized = benchmark_of("brevitas_network").quantized
    model = quantized(preresnet(8), bits, 2)
    for _ in range(4):
        model(torch.rand(8, 3, 32, 32))
    block = model.stages[0][0]
    assert torch.isfinite(model(torch.rand(8, 3, 32, 32))).all()
    assert len(block.conv0.quant_weight().value.unique()) <= 2**bits
    assert len(block.clip0(torch.randn(8, 16, 4, 4)).unique()) <= 2**bits
    assert type(model.stem) is nn.Conv2d
    train_cell = benchmark_of("brevitas_cells").train_cell
    with pytest.raises(KeyboardInterrupt):
        train_cell(tmp_path, SMALL, bits, 0, quantized, Stop(after=WARM_EPOCHS + 1))
    continued = train_cell(tmp_path, SMALL, bits, 0, quantized)
    whole = train_cell(tmp_path / "whole", SMALL, bits, 0, quantized)
    assert continued | {"seconds": 0} == whole | {"seconds": 0}
    json.dumps(continued, allow_nan=False)
