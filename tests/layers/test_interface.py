"""Inputs and outputs of any form."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import InputError, Lagrangian, evaluate, prepare
from pdqat.layers.interface import Interface, OutputChoice

X, Y = (torch.rand(8, 4, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
Pair = namedtuple("Pair", "scores features")


class Body(nn.Module):
    """Of two inputs, in whatever form `read` takes them; returns what `give` makes of scores and features."""

    def __init__(self, give: Callable[[Tensor, Tensor], Any] = lambda scores, _: scores) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU())
        self.head, self.give = nn.Linear(6, 3), give

    def compute(self, x: Tensor, y: Tensor) -> Any:
        features = self.layers(x - y)
        return self.give(self.head(features), features)

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.compute(x, y)


class OfOneList(Body):
    def forward(self, parts: list[Tensor]) -> Any:  # type: ignore[override]
        return self.compute(*parts)


class OfOneDictionary(Body):
    def forward(self, batch: dict[str, Tensor]) -> Any:  # type: ignore[override]
        return self.compute(batch["left"], batch["right"])


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (Body, (X, Y)),
        (Body, [X, Y]),
        (Body, {"y": Y, "x": X}),
        (OfOneList, [X, Y]),
        (OfOneDictionary, {"left": X, "right": Y}),
    ],
)
def test_inputs_are_what_the_forward_takes(model: type[Body], example: Any) -> None:
    with torch.no_grad():
        expected = Body()(X, Y)
    net = prepare(model(), example)
    assert list(net.layers) == ["layers.2"]
    torch.testing.assert_close(net.call(example), expected, rtol=0, atol=0)
    problem = Lagrangian(net, F.cross_entropy)
    assert bool(problem(example, torch.arange(8) % 3).isfinite())
    assert evaluate(problem, [(example, torch.arange(8) % 3)]).samples == 8


@pytest.mark.parametrize(
    ("give", "output"),
    [
        (lambda scores, _: (scores,), None),
        (lambda scores, _: (scores, torch.arange(8), None), None),
        (lambda scores, features: {"logits": scores, "hidden": features}, None),
        (lambda scores, features: (features, scores), 1),
        (lambda scores, features: Pair(scores, features), 0),
        (lambda scores, features: Pair(scores, features), lambda returned: returned.scores),
        (lambda scores, features: {"scores": scores, "hidden": features}, "scores"),
        (lambda scores, _: {"heads": [scores]}, lambda returned: returned["heads"][0]),
    ],
)
def test_the_tensor_to_compare_is_the_obvious_one_or_chosen(
    give: Callable[[Tensor, Tensor], Any], output: OutputChoice | None
) -> None:
    net = prepare(Body(give), (X, Y), output=output)
    torch.testing.assert_close(net(X, Y), Body()(X, Y), rtol=0, atol=0)
    with net.under("2-bit"):
        assert net(X, Y).shape == (8, 3)
    assert net.left_alone["head"].startswith("last layer")


@pytest.mark.parametrize(
    ("give", "output", "message"),
    [
        (lambda *both: both, None, r"the model returns a tuple; choose the tensor .* output=, one of 0, 1, or a func"),
        (lambda *both: dict(zip("ab", both, strict=True)), None, "returns a dict; .* one of 'a', 'b', or a function"),
        (lambda *_: "nothing", None, "returns a str; there is no tensor in it: choose one by output=, a function"),
        (lambda *both: both, 2, "the model returns no 2, but a tuple; choose"),
        (lambda *both: dict(zip("ab", both, strict=True)), "c", "the model returns no 'c', but a dict; choose"),
        (lambda scores, _: scores, 0, "output=0 chooses from several, but the model returns one tensor"),
        (lambda scores, _: scores, "logits", "output='logits' chooses from several, but the model returns one tensor"),
        (lambda scores, _: {"a": [scores]}, "a", "output='a' gives a list, not a tensor"),
        (lambda scores, _: scores, 1.5, "output= is a position, a key, or a function of what the model returns"),
        (lambda scores, _: scores, True, "output= is a position, a key, or a function of what the model returns"),
    ],
)
def test_what_is_not_clear_is_asked_for(give: Callable[..., Any], output: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(Body(give), (X, Y), output=output)


def test_batches_may_be_given_by_name_where_the_example_was_by_position() -> None:
    interface = Interface.of(Body(), (X, Y))
    assert interface.arguments({"x": X, "y": Y}) == ((), {"x": X, "y": Y})
    assert interface.arguments(X) == ((X,), {})
