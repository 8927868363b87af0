"""A model that was trained before keeps what it learned."""

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from pdqat import Lagrangian, evaluate, export, prepare


class Trained(nn.Module):
    """A network with an own forward, and functions that are not ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.SiLU(inplace=True))
        self.branch = nn.Sequential(nn.Conv2d(12, 12, 3, padding=1), nn.GroupNorm(3, 12), nn.GELU())
        self.down = nn.Sequential(nn.Conv2d(12, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.LeakyReLU(0.1))
        self.hidden, self.head = nn.Linear(24 * 16, 32), nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.stem(image)
        pooled = self.down(fine + self.branch(fine)).flatten(1)
        scores: Tensor = self.head(torch.tanh(self.hidden(pooled)))
        return scores


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train on, and others."""
    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(raw.target, dtype=torch.int64)
    return images[:1200], labels[:1200], images[1200:], labels[1200:]


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    torch.manual_seed(0)
    images, labels, _, _ = digits()
    model = Trained()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(4):
        for some in torch.split(torch.randperm(len(images)), 64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[some]), labels[some]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.eval()


def accuracy(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(1) == labels).double().mean())


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_the_full_view_is_what_the_model_was(trained: nn.Module, bits: int) -> None:
    _, _, images, labels = digits()
    model = copy.deepcopy(trained)
    net = prepare(model, images[:64], bits=bits)
    with torch.no_grad():
        before, after = trained(images), net(images)
    assert torch.equal(after, before)
    scores = evaluate(Lagrangian(net, F.cross_entropy), [(images, labels)]).scores
    assert scores["full"] == pytest.approx(accuracy(before, labels))


def test_the_same_holds_after_baking_and_preparing_again(trained: nn.Module) -> None:
    _, _, images, _ = digits()
    model = prepare(copy.deepcopy(trained), images[:64], bits=4).restore(bake=True)
    again = prepare(model, images[:64], bits=2)
    with torch.no_grad():
        assert torch.equal(again(images), trained(images))


def test_at_8_bits_the_file_is_within_half_a_point(trained: nn.Module, tmp_path: Path) -> None:
    """Without any training in low precision. 597 images: half a point is less than three of them."""
    _, _, images, labels = digits()
    with torch.no_grad():
        before = accuracy(trained(images), labels)
    net = prepare(copy.deepcopy(trained), images[:64], bits=8)
    report = export(net, tmp_path / "model.onnx", images[:2], check=[(images, labels)])
    assert before > 0.8, "it has learned something to keep"
    for verified in report.verified:
        assert verified.passes
        assert verified.accuracy is not None
        assert abs(verified.accuracy - before) <= 0.005
