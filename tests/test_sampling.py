"""Layer distances estimated on a random part of the batch."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import BlockConstraint, ChannelConstraint, Constraint, Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.layers.recorder import Recorder

BATCH = 64
PART = 0.25
ROWS = 16


def linear_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 3))


def conv_net() -> nn.Sequential:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 4, 1), nn.BatchNorm2d(4))
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), body, nn.Flatten(), nn.Linear(16, 3))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def made(model: nn.Module, example: Tensor, constraint: Constraint, part: float) -> Lagrangian:
    net = prepare(model, example, 2, quantizer="dorefa")
    lagrangian = Lagrangian(net, F.cross_entropy, [OutputConstraint(), constraint], layer_sample=part)
    lagrangian.duals.multipliers.fill_(0.5)
    return lagrangian


def drawn(seed: int) -> Tensor:
    """The rows that a forward with this seed compares: its first draw."""
    torch.manual_seed(seed)
    return torch.randperm(BATCH)[:ROWS]


@pytest.mark.parametrize("distance", ["relative", "squared", "absolute"])
def test_the_estimate_is_the_distance_on_the_drawn_rows(distance: str) -> None:
    x, y = torch.rand(BATCH, 4), torch.randint(3, (BATCH,))
    model = linear_net()
    first, middle, _ = model
    assert isinstance(first, nn.Linear)
    assert isinstance(middle, nn.Linear)
    lagrangian = made(model, x, LayerConstraint(distance), PART)
    rows = drawn(7)
    torch.manual_seed(7)
    estimate = lagrangian.terms(x, y).distances[1]

    weight = middle.weight.detach()
    squashed = weight.tanh() / weight.tanh().abs().max()
    scale = weight.abs().mean()
    z = (F.linear(x, first.weight, first.bias).clamp(0, 1) * 3).round() / 3
    full = F.linear(z[rows], scale * squashed, middle.bias)
    low = F.linear(z[rows], scale * (2 * ((squashed + 1) / 2 * 3).round() / 3 - 1), middle.bias)
    if distance == "relative":
        expected = ((full - low).square().mean(0) / (full.var(0, correction=0) + 1e-5)).mean()
    else:
        difference = full - low  # the head is not quantised: nothing clips what it reads
        expected = (difference.square() if distance == "squared" else difference.abs()).mean()
    torch.testing.assert_close(estimate, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("constraint", [LayerConstraint("squared"), ChannelConstraint("absolute")])
def test_estimates_are_unbiased_whatever_norm_follows(constraint: Constraint) -> None:
    x, y = torch.rand(BATCH, 1, 6, 6), torch.randint(3, (BATCH,))
    whole = made(conv_net(), x, constraint, 1.0).terms(x, y).distances
    sampled = made(conv_net(), x, constraint, PART)
    draws = torch.stack([sampled.terms(x, y).distances for _ in range(400)]).detach()
    assert (draws.std(0)[1:] > 0).all()
    error = (draws.mean(0) - whole).abs()
    assert (error <= 4.5 * draws.std(0) / len(draws) ** 0.5 + 1e-6).all()


def test_relative_estimates_are_nearly_unbiased() -> None:
    """A ratio of estimates has a bias, which falls with the number of rows."""
    x, y = torch.rand(BATCH, 1, 6, 6), torch.randint(3, (BATCH,))
    whole = made(conv_net(), x, LayerConstraint("relative"), 1.0).terms(x, y).distances
    sampled = made(conv_net(), x, LayerConstraint("relative"), PART)
    draws = torch.stack([sampled.terms(x, y).distances for _ in range(200)]).detach()
    torch.testing.assert_close(draws.mean(0), whole, rtol=0.05, atol=1e-4)


def test_gradients_are_unbiased_too() -> None:
    x, y = torch.rand(BATCH, 1, 6, 6), torch.randint(3, (BATCH,))

    def gradients(lagrangian: Lagrangian) -> Tensor:
        lagrangian.zero_grad()
        lagrangian.value(lagrangian.terms(x, y)).backward()  # type: ignore[no-untyped-call]
        return torch.cat(
            [layer.weight.grad.flatten() for layer in lagrangian.net.layers.values() if layer.weight.grad is not None]
        )

    whole = gradients(made(conv_net(), x, LayerConstraint("squared"), 1.0))
    sampled = made(conv_net(), x, LayerConstraint("squared"), PART)
    draws = torch.stack([gradients(sampled) for _ in range(400)])
    error = (draws.mean(0) - whole).abs()
    assert (error <= 5 * draws.std(0) / len(draws) ** 0.5 + 1e-6).all()


def test_every_row_is_drawn_equally_often_and_alike_for_batches_of_one_size() -> None:
    counts = torch.zeros(BATCH)
    rows = torch.arange(BATCH, dtype=torch.float32)
    for _ in range(2000):
        recorder = Recorder([], PART)
        first, second = recorder.sampled(rows), recorder.sampled(rows + 100)
        assert torch.equal(second, first + 100)
        assert len(first) == ROWS
        assert len(set(first.tolist())) == ROWS
        counts[first.long()] += 1
    expected = 2000 * PART
    assert (counts - expected).abs().max() < 5 * (expected * (1 - PART)) ** 0.5


def test_evaluation_looks_at_every_sample() -> None:
    x, y = torch.rand(BATCH, 1, 6, 6), torch.randint(3, (BATCH,))
    whole, sampled = (made(conv_net(), x, LayerConstraint(), part).eval() for part in (1.0, PART))
    assert torch.equal(sampled.terms(x, y).distances, whole.terms(x, y).distances)


def test_blocks_are_compared_on_the_whole_batch() -> None:
    x, y = torch.rand(BATCH, 1, 6, 6), torch.randint(3, (BATCH,))
    whole, sampled = (made(conv_net(), x, BlockConstraint(blocks=["3"]), part) for part in (1.0, PART))
    assert torch.equal(sampled.terms(x, y).distances, whole.terms(x, y).distances)


def test_outputs_and_statistics_do_not_depend_on_the_sample() -> None:
    x, y = torch.rand(BATCH, 1, 6, 6), torch.randint(3, (BATCH,))
    whole, sampled = (made(conv_net(), x, LayerConstraint(), part) for part in (1.0, PART))
    for lagrangian in (whole, sampled):
        lagrangian(x, y)
    torch.testing.assert_close(sampled.net.state_dict(), whole.net.state_dict(), rtol=0, atol=0)


def test_a_single_sample_without_a_batch_dimension_is_compared_whole() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 1), nn.Flatten(0), nn.Linear(16, 3))
    x = torch.rand(1, 6, 6)
    net = prepare(model, x, 2)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(output, target)

    distances = [
        Lagrangian(net, loss, [LayerConstraint()], layer_sample=part).terms(x, torch.zeros(3)).distances
        for part in (1.0, PART)
    ]
    assert torch.equal(*distances)


@pytest.mark.parametrize(("size", "rows"), [(128, 32), (100, 25), (64, 16), (40, 16), (16, 16), (3, 3), (1, 1)])
def test_a_sample_has_its_part_of_the_rows_but_not_too_few(size: int, rows: int) -> None:
    assert len(Recorder([], PART).sampled(torch.rand(size, 2))) == rows
