"""An own model through the whole road: train under constraints, rank layers, spend bits, train again, export.

    python examples/own_model.py [convolutional | perceptron | one-dimensional]

The data are the handwritten digits that come with scikit-learn. Needs `pip install 'pdqat[data,plan,export]'`; takes
about a minute on one core. Put your own module in the place of `model` and your own DataLoaders in the place of these.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import pdqat


def convolutional() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(32, 10)),
    )


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()),
        *(nn.Linear(64, 64), nn.ReLU()),
        *(nn.Linear(64, 64), nn.ReLU()),
        nn.Linear(64, 10),
    )


def one_dimensional() -> nn.Module:
    """Reads an image as a signal of eight values with eight channels."""
    return nn.Sequential(
        nn.Flatten(1, 2),
        *(nn.Conv1d(8, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU()),
        *(nn.Conv1d(32, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(32, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 4, 10)),
    )


MODELS = {"convolutional": convolutional, "perceptron": perceptron, "one-dimensional": one_dimensional}


def digits() -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]:
    """Loaders for training and validation, each of (images, labels)."""
    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(raw.target, dtype=torch.int64)
    training, validation = TensorDataset(images[:1400], labels[:1400]), TensorDataset(images[1400:], labels[1400:])
    return DataLoader(training, batch_size=64, shuffle=True, drop_last=True), DataLoader(validation, batch_size=200)


def pretrain(model: nn.Module, loader: DataLoader[tuple[Tensor, ...]], epochs: int) -> None:
    """Plain training in full precision: what you have done already."""
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def main(kind: str, file: Path, pretraining: int = 10, epochs: tuple[int, int] = (5, 2)) -> None:
    torch.manual_seed(0)
    train_loader, validation_loader = digits()
    model = MODELS[kind]()
    pretrain(model, train_loader, pretraining)
    example, _ = next(iter(validation_loader))

    net = pdqat.prepare(model, example, bits=4)
    problem = pdqat.Lagrangian(net, F.cross_entropy)
    history = pdqat.fit(problem, train_loader, validation=validation_loader, epochs=epochs[0], lr=1e-3)
    print(history)

    ranking = pdqat.rank(problem, validation_loader)
    print(ranking)

    plan = pdqat.allocate(problem, validation_loader, budget="3 bits", bits=[2, 4, 8])
    print(plan)
    problem = problem.under_plan(plan)
    pdqat.fit(problem, train_loader, validation=validation_loader, epochs=epochs[1], lr=1e-4)

    report = pdqat.export(problem.net, file, example, check=validation_loader)
    print(report)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "convolutional", Path("model.onnx"))
