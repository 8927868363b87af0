"""Each ranking against what it is defined as."""

import math

import pytest
import torch
import torch.nn.functional as F

from pdqat.errors import InputError
from pdqat.precision import FULL, Precision
from pdqat.sensitivity import RANKINGS
from pdqat.sensitivity.gradient import first_order
from pdqat.sensitivity.hessian import hutchinson
from pdqat.sensitivity.probe import distances
from pdqat.sensitivity.subject import Subject
from pdqat.training import Run


@pytest.fixture(scope="module")
def subject(relative_run: Run) -> Subject:
    return Subject.of_run(relative_run, images=100)


@pytest.mark.parametrize("name", RANKINGS)
def test_every_ranking_scores_every_layer_and_leaves_the_model_as_it_was(subject: Subject, name: str) -> None:
    inputs, _ = next(subject.batches())
    views = [None, subject.plan]

    def outputs() -> list[torch.Tensor]:
        found = []
        with torch.no_grad():
            for plan in views:
                with subject.net.under(plan):
                    found.append(subject.net(inputs))
            found.append(subject.plain(inputs))
        return found

    before = outputs()
    scores = RANKINGS[name](subject)
    assert list(scores) == subject.plan.low_layers
    assert all(math.isfinite(score) for score in scores.values())
    assert len(set(scores.values())) > 1
    for mine, its in zip(outputs(), before, strict=True):
        assert torch.equal(mine, its)


def test_the_plain_copy_is_the_full_precision_view(subject: Subject) -> None:
    inputs, _ = next(subject.batches())
    with torch.no_grad():
        torch.testing.assert_close(subject.plain(inputs), subject.net(inputs))


def test_multipliers_are_the_runs_own(subject: Subject, relative_run: Run) -> None:
    last = relative_run.metrics()[-1]["constraints"]
    expected = {each["where"]: each["multiplier"] for each in last if each["kind"] == "layer"}
    assert RANKINGS["dual"](subject) == expected


@torch.no_grad()
def test_a_candidate_counts_what_its_bits_do_to_input_and_weights(subject: Subject) -> None:
    name, precision = "stages.1.0.conv0", Precision(4, 3)
    layer, seen = subject.net.layers[name], []
    hook = layer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    inputs, _ = next(subject.batches())
    with subject.net.under(subject.plan):
        subject.net(inputs)
    hook.remove()
    x = seen[0].clamp(0, 1)
    tanh = torch.tanh(layer.weight)
    size, unit = layer.weight.abs().mean(), tanh / tanh.abs().max()
    full = F.conv2d(x, size * unit, stride=2, padding=1)
    low_weight = size * (2 * torch.round(15 * (0.5 + unit / 2)) / 15 - 1)
    low = F.conv2d(torch.round(x * 7) / 7, low_weight, stride=2, padding=1)
    over = (0, 2, 3)
    expected = ((full - low).square().mean(over) / (full.var(over, correction=0) + 1e-5)).mean()
    found = distances(subject, [precision, FULL])[name]
    assert found[precision] == pytest.approx(float(expected), rel=1e-4)
    assert found[FULL] == 0


@pytest.mark.parametrize("which", ["relative_run", "squared_run"])
def test_more_bits_are_nearer(which: str, request: pytest.FixtureRequest) -> None:
    subject = Subject.of_run(request.getfixturevalue(which), images=100)
    for by_precision in distances(subject, [Precision(bits, bits) for bits in (1, 2, 4, 8)]).values():
        values = list(by_precision.values())
        assert values[1] > values[2] > values[3]  # 1 bit may beat 2 where the next layer clips


def test_layer_sizes_are_worked_out_by_hand(subject: Subject) -> None:
    layer = subject.net.layers["stages.1.0.conv0"]
    assert subject.sizes["stages.1.0.conv0"].parameters == layer.weight.numel() == 8 * 16 * 9
    assert subject.sizes["stages.1.0.conv0"].operations == 8 * 16 * 9 * 4 * 4  # digits of 8 x 8, halved once


def test_first_order_is_the_derivative_of_the_loss_along_the_error(subject: Subject) -> None:
    name = "stages.0.0.conv0"
    error, weight, step = subject.weight_errors()[name], subject.plain.get_submodule(name).weight, 1e-3
    assert isinstance(weight, torch.Tensor)
    losses = []
    batches = list(subject.batches())
    assert len(batches) == 1
    with torch.no_grad():
        for sign in (1, -1):
            weight.add_(sign * step * error)
            losses.append(float(F.cross_entropy(subject.plain(batches[0][0]).double(), batches[0][1])))
            weight.sub_(sign * step * error)
    assert first_order(subject)[name] == pytest.approx(abs(losses[0] - losses[1]) / (2 * step), rel=0.02)


def test_hutchinson_is_exact_for_a_diagonal_hessian_and_near_for_others() -> None:
    one, other = torch.randn(5, requires_grad=True), torch.randn(4, requires_grad=True)
    diagonal = torch.tensor([1.0, 2.0, 3.0, -1.0, 0.5])
    full = torch.randn(4, 4)
    full = full @ full.T
    loss = 0.5 * (diagonal * one.square()).sum() + 0.5 * other @ full @ other + one.sum() * other.sum()
    found = hutchinson(loss, [one, other], 4000, torch.Generator().manual_seed(0))
    assert float(found[0]) == pytest.approx(5.5, abs=0.5)
    assert float(found[1]) == pytest.approx(float(full.trace()), rel=0.1)
    alone = hutchinson(0.5 * (diagonal * one.square()).sum(), [one], 1, torch.Generator().manual_seed(1))
    assert float(alone[0]) == pytest.approx(5.5)


def test_a_run_without_layer_constraints_has_no_multipliers(ste_run: Run) -> None:
    subject = Subject.of_run(ste_run, images=50)
    with pytest.raises(InputError, match="has no layer multipliers: train with method pdqat-layers"):
        RANKINGS["dual"](subject)
    assert list(RANKINGS["distance"](subject)) == subject.plan.low_layers
    for name in ("hessian", "gradient", "only-low", "only-high"):
        with pytest.raises(InputError, match="leaves the full-precision view untrained"):
            RANKINGS[name](subject)
