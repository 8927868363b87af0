"""Statistics of low-precision norms are the plain mean over batches, and nothing else of the network moves."""

import pytest
import torch
from torch import nn

from pdqat import prepare
from pdqat.errors import InputError
from pdqat.layers.network import Network
from pdqat.layers.norm_statistics import estimate_statistics


def prepared() -> tuple[Network, list[tuple[torch.Tensor, torch.Tensor]]]:
    generator = torch.Generator().manual_seed(3)
    model = nn.Sequential(
        nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2)
    )
    batches = [(torch.randn(8, 4, generator=generator), torch.zeros(8)) for _ in range(3)]
    return prepare(model, batches[0][0], bits=2).train(), batches


def read_by_the_norm(net: Network, inputs: torch.Tensor) -> torch.Tensor:
    seen: list[torch.Tensor] = []
    layer = net.model.get_submodule("2")
    hook = layer.register_forward_hook(lambda *call: seen.append(call[-1].detach()))
    with net.under("2-bit"), torch.no_grad():
        net.eval()(inputs)
    hook.remove()
    return seen[0]


def test_they_are_the_mean_over_the_first_batches() -> None:
    net, batches = prepared()
    view = net.model.get_submodule("3").get_submodule("views.2-bit")
    assert isinstance(view, nn.BatchNorm1d)
    estimate_statistics(net, net.plans["2-bit"], batches, 2)
    read = [read_by_the_norm(net, inputs) for inputs, _ in batches[:2]]
    means, variances = ([getattr(rows, name)(0) for rows in read] for name in ("mean", "var"))
    assert view.running_mean is not None
    assert view.running_var is not None
    torch.testing.assert_close(view.running_mean, torch.stack(means).mean(0))
    torch.testing.assert_close(view.running_var, torch.stack(variances).mean(0))


def test_a_small_last_batch_does_not_count() -> None:
    net, batches = prepared()
    estimate_statistics(net, net.plans["2-bit"], batches, 3)
    whole = {key: value.clone() for key, value in net.state_dict().items()}
    estimate_statistics(net, net.plans["2-bit"], [*batches, (batches[0][0][:2], batches[0][1][:2])], 4)
    assert all(torch.equal(value, whole[key]) for key, value in net.state_dict().items())


def test_modes_full_precision_and_quantisers_stay() -> None:
    net, batches = prepared()
    net.model.get_submodule("5").eval()
    before = {key: value.clone() for key, value in net.state_dict().items() if "3.views" not in key}
    modes = [module.training for module in net.modules()]
    estimate_statistics(net, net.plans["2-bit"], batches, 3)
    after = net.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert [module.training for module in net.modules()] == modes
    assert net.model.get_submodule("3").get_submodule("views.2-bit").momentum == 0.1


def test_without_a_batch_there_is_nothing_to_estimate_on() -> None:
    net, _ = prepared()
    with pytest.raises(InputError, match="no batch to estimate"):
        estimate_statistics(net, net.plans["2-bit"], [], 2)
