"""Dropout has one mask in all views of one forward."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import BlockConstraint, Lagrangian, LayerConstraint, OutputConstraint, prepare

X = torch.rand(64, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(64) % 3


class Dropping(nn.Module):
    """Drops by a module and by a function, and remembers what was drawn."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5))
        self.drawn: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(self.first(x), 0.5, self.training)
        self.drawn.append(x == 0)
        x = self.block(x)
        self.drawn.append(torch.rand(4))
        y: Tensor = self.last(x)
        return y


def made(**options: Any) -> tuple[Lagrangian, Dropping]:
    model = Dropping()
    net = prepare(model, X, [2, 4])
    model.drawn.clear()
    constraints = [OutputConstraint(), LayerConstraint(), BlockConstraint(blocks=["block"])]
    return Lagrangian(net, F.cross_entropy, constraints, **options), model


def test_all_views_draw_the_same_and_the_next_forward_draws_anew() -> None:
    for options in ({}, {"layer_sample": 0.5}):
        problem, model = made(**options)
        for _ in range(2):
            problem(X, Y)
        once, again = model.drawn[:6], model.drawn[6:]
        for drawn in (once, again):
            assert all(torch.equal(drawn[0], other) for other in (drawn[2], drawn[4]))
            assert all(torch.equal(drawn[1], other) for other in (drawn[3], drawn[5]))
        assert not torch.equal(once[0], again[0])
        assert not torch.equal(once[1], again[1])


def test_distances_do_not_measure_dropout() -> None:
    """At 8 bits views differ by rounding and clipping alone: another mask would make an error of their size."""
    torch.manual_seed(0)
    net = prepare(Dropping(), X, 8)
    problem = Lagrangian(net, F.cross_entropy, [BlockConstraint("relative", blocks=["block"])])
    assert problem.terms(X, Y).distances.item() < 0.1
