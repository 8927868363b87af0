"""Training steps on devices that are not here: torch's meta device computes shapes, and says if two devices meet.

Nothing can be read from it, so a step that passes never waits for the device either.
"""

from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import clip_grad_norm_

from pdqat import (
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    Lagrangian,
    LayerConstraint,
    LossConstraint,
    OutputConstraint,
    prepare,
)
from pdqat.config.device import device_of
from pdqat.config.train_config import TrainConfig
from pdqat.errors import InputError
from pdqat.layers.draws import Draws
from pdqat.quantizers import SCHEMES
from pdqat.training.flips import FlipControl
from shared_problems import data, lagrangian


def take_steps(problem: Lagrangian, samples: int = 8) -> None:
    """Two of the weights and one of the multipliers, on the meta device."""
    problem.to("meta").train()
    inputs, target = (tensor.to("meta") for tensor in data(samples, torch.float32))
    optimizer = torch.optim.Adam(problem.net.parameters())
    flips = FlipControl(problem.net, 0.01)
    for _ in range(2):
        problem(inputs, target).backward()
        clip_grad_norm_(problem.net.parameters(), 1.0)
        flips.step(optimizer, 0.01)
    slacks = problem.dual_step()
    everything = [slacks, flips.part, *problem.parameters(), *problem.buffers()]
    assert {tensor.device.type for tensor in everything} == {"meta"}


def test_steps_under_every_constraint() -> None:
    constraints: list[Constraint] = [OutputConstraint("kl"), LossConstraint(0.5), LayerConstraint("relative", 0.1)]
    constraints += [ChannelConstraint("squared", 0.1), BlockConstraint("absolute", 0.1, blocks=["4"])]
    take_steps(lagrangian(constraints, torch.float32))


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", SCHEMES)
def test_steps_with_every_quantizer(quantizer: str) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU())
    model.extend([nn.Flatten(), nn.Linear(16, 3)])
    net = prepare(model, data(8, torch.float32)[0], 2, quantizer=quantizer, integer_sums=True)
    constraints = [OutputConstraint(), LayerConstraint("squared", 0.1)]
    take_steps(Lagrangian(net, nn.functional.cross_entropy, constraints, layer_sample=0.5, view_sample=0.5), samples=40)


def test_an_evaluation_on_a_gpu_that_is_not_here() -> None:
    """Torch's fake tensors say that they are on a GPU."""
    problem = lagrangian(dtype=torch.float32).eval().requires_grad_(False)
    with FakeTensorMode(), torch.no_grad():
        for module in problem.modules():
            for tensors in cast("list[dict[str, Tensor | None]]", [module._parameters, module._buffers]):
                for key, tensor in tensors.items():
                    if tensor is not None:
                        tensors[key] = _fake(tensor)
        terms = problem.terms(*(_fake(tensor) for tensor in data(8, torch.float32)))
    assert {tensor.device.type for tensor in (terms.loss, terms.distances, *terms.outputs.values())} == {"cuda"}


def _fake(tensor: Tensor) -> Tensor:
    fake = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
    return nn.Parameter(fake, requires_grad=False) if isinstance(tensor, nn.Parameter) else fake


def test_draws_of_a_gpu_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    device, seen = torch.device("cuda", 1), []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda where: torch.tensor([where.index]))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, where: seen.append((int(state), where)))
    Draws(active=True, device=device).repeat()
    assert seen == [(1, device)]


def test_every_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdqat.config.device.processes", lambda: 2)
    monkeypatch.setattr("pdqat.config.device.available", torch.device)
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device_of(TrainConfig(device="cuda")) == torch.device("cuda", 1)
    assert chosen == [torch.device("cuda", 1)]
    assert device_of(TrainConfig(device="cpu")) == torch.device("cpu")
    with pytest.raises(InputError, match="'cuda:1' is one GPU, and there are 2 processes"):
        device_of(TrainConfig(device="cuda:1"))
