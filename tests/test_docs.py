"""The code in the documentation runs."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(__file__).parents[1]


def python_in(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_on_own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for block in python_in("docs/own-models.md"):
        exec(compile(block, "docs/own-models.md", "exec"), names)
    assert (tmp_path / "runs" / "mine" / "summary.json").exists()


def test_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    images, labels = torch.rand(96, 1, 8, 8), torch.arange(96) % 10
    train_loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)),
    )
    validation_loader = DataLoader(TensorDataset(images, labels), batch_size=48)
    loaders = {"train_loader": train_loader, "validation_loader": validation_loader}
    (block,) = python_in("README.md")
    exec(compile(block, "README.md", "exec"), {"model": model, "example": images[:32], **loaders})
    assert (tmp_path / "model.onnx").exists()
