"""A problem's weights under another plan, with statistics of norms estimated anew."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import BitPlan, InputError, Lagrangian, Precision, models, prepare
from pdqat.allocation.measure import measure_under
from pdqat.layers.norm import PrecisionNorm
from pdqat.task import TaskProblem
from small_problems import drawn, labels, same_state, small, state


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    return [(drawn(16, 1, 8, 8, seed=number), labels(16)) for number in range(count)]


def test_statistics_are_means_over_eight_batches() -> None:
    """Beside an independent forward: every norm by the mean and variance of the same batches, layer after layer."""
    torch.manual_seed(0)
    training, (validation,) = batches(10), batches(1)
    net = prepare(models.build("preresnet-small", 1, 10, (1, 8, 8)), training[0][0], 2, quantizer="dorefa")
    problem = Lagrangian(net, F.cross_entropy)
    plan = BitPlan("mixed", dict.fromkeys(net.layers, Precision(4, 8)))
    before = state(problem)
    measured = measure_under(problem, plan, training, [validation])
    assert same_state(state(problem), before)

    norms = [module for module in net.modules() if isinstance(module, PrecisionNorm)]
    sums: dict[str, list[Tensor]] = {norm.name: [] for norm in norms}
    for norm in norms:
        norm.register_forward_pre_hook(
            lambda module, args: sums[module.name].append(
                torch.stack([args[0].mean((0, 2, 3)), args[0].transpose(0, 1).flatten(1).var(1)])
            )
        )
    same_bits = BitPlan("2-bit", plan.precisions)
    net.train()
    with torch.no_grad(), net.state.under(same_bits):
        for inputs, _ in itertools.islice(training, 8):
            net(inputs)
    for norm in norms:
        view = norm.views["2-bit"]
        assert isinstance(view, nn.BatchNorm2d)
        assert view.running_mean is not None
        assert view.running_var is not None
        mean, variance = torch.stack(sums[norm.name]).mean(0)
        view.running_mean.copy_(mean)
        view.running_var.copy_(variance)
    net.eval()
    inputs, target = validation
    with torch.no_grad(), net.state.under(same_bits):
        output = net(inputs)
    assert list(measured.scores) == ["full", "mixed"]
    assert measured.scores["mixed"] == pytest.approx((output.argmax(1) == target).double().mean().item())
    assert measured.loss == pytest.approx(F.cross_entropy(output, target).item(), rel=1e-4)
    full = net(inputs)
    divergence = F.kl_div(output.log_softmax(1), full.softmax(1), reduction="batchmean").item()
    assert measured.constraints[0]["distance"] == pytest.approx(divergence, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("quantizer", ["dorefa", "uniform", "lsq"])
@pytest.mark.parametrize("training", [True, False])
def test_the_problem_stays_as_it_was(quantizer: str, training: bool) -> None:
    made = small(quantizer=quantizer, gradient="straight-through")
    made.problem.train(training)
    before = state(made.problem)
    plan = BitPlan("mixed", {"6": Precision(4, 4)})
    measured = measure_under(made.problem, plan, made.batches, made.batches)
    assert same_state(state(made.problem), before)
    assert measured.plans == {"mixed": {"3": "2", "6": "4", "9": "2"}}


def test_the_task_loss_alone_is_measured_too() -> None:
    made = small("regression")
    problem = TaskProblem(made.problem.net, F.mse_loss)
    measured = measure_under(problem, BitPlan("mixed", {"6": Precision(4, 4)}), made.batches, made.batches)
    assert measured.metric.name == "task_loss"
    assert measured.scores == {"mixed": pytest.approx(measured.loss)}


def test_statistics_need_a_batch() -> None:
    made = small()
    with pytest.raises(InputError, match="the training batches are empty"):
        measure_under(made.problem, BitPlan("mixed", {"6": Precision(4, 4)}), [], made.batches)
    without_norms = small("tuple of inputs")
    plan = BitPlan("mixed", {"hidden": Precision(4, 4)})
    assert measure_under(without_norms.problem, plan, [], without_norms.batches).samples == 48


def test_no_more_training_batches_are_made_than_are_looked_at() -> None:
    made = small()
    count = 0

    def counted() -> Iterator[Any]:
        nonlocal count
        for _ in range(20):
            count += 1
            yield made.first

    measure_under(made.problem, BitPlan("mixed", {"6": Precision(4, 4)}), counted(), made.batches)
    assert count == 8
