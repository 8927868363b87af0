"""The task loss alone, of full precision or of every plan."""

import torch
import torch.nn.functional as F
from torch import Tensor

from networks_as_trained import Signals, as_trained, signals
from pdqat import Network, prepare
from pdqat.layers import Gradient
from pdqat.task import TaskProblem

X, Y = signals()


def trained_net() -> Network:
    torch.manual_seed(0)
    return as_trained(prepare(Signals(), X, [2, 4]))


def gradients(loss: Tensor, net: Network) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(net.parameters()), materialize_grads=True))


def test_low_precision_is_the_sum_of_the_plans_losses_by_straight_through_gradient() -> None:
    net = trained_net().eval()
    losses = []
    for plan in net.plans:
        with net.under(plan, Gradient.STRAIGHT_THROUGH):
            losses.append(F.cross_entropy(net(X), Y))
    task = TaskProblem(net, F.cross_entropy)
    assert torch.equal(task(X, Y), losses[0] + losses[1])
    torch.testing.assert_close(gradients(task(X, Y), net), gradients(losses[0] + losses[1], net))
    assert list(task.terms(X, Y).outputs) == ["2-bit", "4-bit"]


def test_full_precision_is_the_plain_loss() -> None:
    net = trained_net()
    task = TaskProblem(net, F.cross_entropy, low=False).eval()
    loss = F.cross_entropy(net(X), Y)
    assert torch.equal(task(X, Y), loss)
    torch.testing.assert_close(gradients(task(X, Y), net), gradients(loss, net))
    terms = task.terms(X, Y)
    assert list(terms.outputs) == ["full"]
    assert torch.equal(task.value(terms), loss)


def test_it_has_no_bounds_and_adds_nothing_to_the_networks_state() -> None:
    task = TaskProblem(trained_net(), F.cross_entropy)
    assert task.bounds == ()
    assert task.terms(X, Y).distances.shape == (0,)
    assert {key.removeprefix("net.") for key in task.state_dict()} == set(task.net.state_dict())
