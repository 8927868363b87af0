import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pdqat import BlockConstraint, Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.layers.recorder import FEWEST_ROWS
from pdqat.quantizers import SCHEMES

# torch.compile uses what torch advises against.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _forgetful_compiler() -> None:
    torch._dynamo.reset()


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shortcut = nn.Conv2d(4, 4, 3)
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.shortcut(x) + self.body(x))


def made(quantizer: str, layer_sample: float = 1.0) -> Lagrangian:
    """With the quantisers of sums, which remember what they have seen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), Residual(), nn.Flatten(), nn.Linear(16, 3))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.bias)  # few codes often meet their mean exactly: no ReLU at its kink
    net = prepare(model, torch.rand(8, 1, 6, 6), [2, 4], quantizer=quantizer, integer_sums=True)
    constraints = [OutputConstraint(), LayerConstraint("squared", 0.01), BlockConstraint(blocks=["3"])]
    lagrangian = Lagrangian(net, F.cross_entropy, constraints, layer_sample=layer_sample)
    lagrangian.duals.multipliers.fill_(0.7)
    return lagrangian


def assert_compiles(quantizer: str, backend: str, layer_sample: float = 1.0, images: int = 8) -> None:
    """One graph without a break, with the values, gradients, statistics and running slacks of eager mode."""
    eager, source = made(quantizer, layer_sample).double(), made(quantizer, layer_sample).double()
    compiled = torch.compile(source, fullgraph=True, backend=backend)
    for step in range(3):
        torch.manual_seed(step)
        x, y = torch.rand(images, 1, 6, 6, dtype=torch.float64), torch.randint(3, (images,))
        values = []
        for lagrangian in (eager, compiled):
            torch.manual_seed(step)  # the same rows are sampled
            values.append(lagrangian(x, y))
        torch.testing.assert_close(*values)
        for lagrangian, value in zip((eager, source), values, strict=True):
            lagrangian.zero_grad()
            value.backward()
        for ours, theirs in zip(source.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(source.dual_step(), eager.dual_step())
    torch.testing.assert_close(source.net.state_dict(), eager.net.state_dict())


def test_sampled_distances_are_in_the_graph() -> None:
    images = 2 * FEWEST_ROWS
    x, y = torch.rand(images, 1, 6, 6), torch.randint(3, (images,))
    whole, part = (made("dorefa", sample).terms(x, y).distances for sample in (1.0, 0.5))
    assert not torch.equal(whole, part), "so many images are sampled"
    assert_compiles("dorefa", backend="eager", layer_sample=0.5, images=images)


def test_evaluation_is_one_graph() -> None:
    lagrangian = made("dorefa").eval()
    x, y = torch.rand(8, 1, 6, 6), torch.randint(3, (8,))
    with torch.no_grad():
        compiled = torch.compile(lagrangian.terms, fullgraph=True, backend="eager")(x, y)
        torch.testing.assert_close(vars(compiled), vars(lagrangian.terms(x, y)))


def test_bfloat16_is_one_graph() -> None:
    eager, source = made("dorefa"), made("dorefa")
    x, y = torch.rand(8, 1, 6, 6), torch.randint(3, (8,))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(
            torch.compile(source, fullgraph=True, backend="eager")(x, y), eager(x, y), rtol=0.02, atol=0
        )


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in SCHEMES if name != "dorefa"]


@pytest.mark.parametrize("quantizer", ["dorefa", *SLOWER])
def test_the_whole_lagrangian_is_one_graph(quantizer: str) -> None:
    assert_compiles(quantizer, backend="eager")


@pytest.mark.slow
@pytest.mark.parametrize(("quantizer", "layer_sample"), [("dorefa", 1.0), ("dorefa", 0.5), ("uniform", 1.0)])
def test_the_compiled_lagrangian_agrees_with_eager_mode(quantizer: str, layer_sample: float) -> None:
    assert_compiles(quantizer, backend="inductor", layer_sample=layer_sample, images=2 * FEWEST_ROWS)
