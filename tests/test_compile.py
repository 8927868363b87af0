import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pdqat import BlockConstraint, Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.quantizers import SCHEMES

# torch.compile uses what torch advises against.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def made(quantizer: str) -> Lagrangian:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), body, nn.Flatten(), nn.Linear(16, 3))
    net = prepare(model, torch.rand(8, 1, 6, 6), [2, 4], quantizer=quantizer)
    constraints = [OutputConstraint(), LayerConstraint("squared", 0.01), BlockConstraint(blocks=["3"])]
    lagrangian = Lagrangian(net, F.cross_entropy, constraints)
    lagrangian.duals.multipliers.fill_(0.7)
    return lagrangian


def assert_compiles(quantizer: str, backend: str) -> None:
    """One graph without a break, with the values, gradients, statistics and running slacks of eager mode."""
    eager, source = made(quantizer), made(quantizer)
    compiled = torch.compile(source, fullgraph=True, backend=backend)
    for step in range(3):
        torch.manual_seed(step)
        x, y = torch.rand(8, 1, 6, 6), torch.randint(3, (8,))
        values = [eager(x, y), compiled(x, y)]
        torch.testing.assert_close(*values)
        for lagrangian, value in zip((eager, source), values, strict=True):
            lagrangian.zero_grad()
            value.backward()
        for ours, theirs in zip(source.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(source.dual_step(), eager.dual_step())
    torch.testing.assert_close(source.net.state_dict(), eager.net.state_dict())


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in SCHEMES if name != "dorefa"]


@pytest.mark.parametrize("quantizer", ["dorefa", *SLOWER])
def test_the_whole_lagrangian_is_one_graph(quantizer: str) -> None:
    assert_compiles(quantizer, backend="eager")


@pytest.mark.slow
def test_the_compiled_lagrangian_agrees_with_eager_mode() -> None:
    assert_compiles("dorefa", backend="inductor")
