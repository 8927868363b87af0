"""bfloat16 without bfloat16 kernels: the numbers of torch's own, slow ones."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.layers import arithmetic
from pdqat.layers.arithmetic import in_autocast
from pdqat.quantizers.base import Grid
from pdqat.quantizers.dorefa import DoReFaActivation


@pytest.fixture(params=[False, True], ids=["by float32 kernels", "by torch"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "HAS_BFLOAT16_KERNELS", request.param)


def with_gradients(x: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    operands = [each.clone().requires_grad_() for each in (x, weight, bias)]
    with torch.autocast("cpu", torch.bfloat16):
        output = in_autocast(F.conv2d, *operands)
    output.float().square().sum().backward()  # type: ignore[no-untyped-call]
    return [output, *(each.grad for each in operands if each.grad is not None)]


def test_it_has_the_numbers_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    given = torch.randn(4, 3, 8, 8), torch.randn(5, 3, 3, 3), torch.randn(5)
    monkeypatch.setattr(arithmetic, "HAS_BFLOAT16_KERNELS", True)
    expected = with_gradients(*given)
    monkeypatch.setattr(arithmetic, "HAS_BFLOAT16_KERNELS", False)
    emulated = with_gradients(*given)
    assert [each.dtype for each in emulated] == [each.dtype for each in expected]
    assert emulated[0].dtype is torch.bfloat16
    for what, ours, theirs in zip(("output", "input", "weight", "bias"), emulated, expected, strict=True):
        error = (ours.float() - theirs.float()).abs().max() / theirs.float().abs().max()
        # A sum in another order may be rounded the other way. Operands that were not rounded differ more.
        assert error < (2**-9 if what in ("output", "bias") else 2**-7), what


@pytest.mark.usefixtures("kernels")
def test_without_autocast_nothing_is_rounded() -> None:
    x, weight = torch.randn(3, 4), torch.randn(5, 4)
    assert torch.equal(in_autocast(F.linear, x, weight, None), F.linear(x, weight))


@pytest.mark.usefixtures("kernels")
def test_float64_is_left_alone_as_by_autocast() -> None:
    x, weight = torch.randn(3, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(in_autocast(F.linear, x, weight, None), F.linear(x, weight))


@pytest.mark.usefixtures("kernels")
def test_losses_distances_and_gradients_stay_in_float32() -> None:
    torch.manual_seed(0)
    body = [nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 4, 1), nn.BatchNorm2d(4)]
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), *body, nn.Flatten(), nn.Linear(16, 3))
    x, y = torch.rand(32, 1, 6, 6), torch.randint(3, (32,))
    net = prepare(model, x, 2, quantizer="dorefa")
    constraints = [OutputConstraint("cross-entropy"), LayerConstraint("relative", 0.01)]
    lagrangian = Lagrangian(net, F.cross_entropy, constraints, objective="full")
    exact = lagrangian.terms(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        terms = lagrangian.terms(x, y)
        value = lagrangian.value(terms)
    value.backward()  # type: ignore[no-untyped-call]
    assert {each.dtype for each in (terms.loss, terms.distances, *terms.outputs.values(), value)} == {torch.float32}
    assert all(each.grad is None or each.grad.dtype is torch.float32 for each in net.parameters())
    torch.testing.assert_close(terms.loss, exact.loss, rtol=0.02, atol=0)
    torch.testing.assert_close(terms.distances, exact.distances, rtol=0.05, atol=1e-3)


@pytest.mark.usefixtures("kernels")
def test_quantisers_see_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 bits need more than bfloat16's 8 significant ones: 254.6 / 255 would become 1 before it is rounded."""
    seen: list[torch.dtype] = []
    original = DoReFaActivation.grid

    def grid(self: DoReFaActivation, tensor: Tensor, bits: int) -> Grid:
        seen.append(tensor.dtype)
        return original(self, tensor, bits)

    net = prepare(
        nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1)), torch.ones(2, 1), 8, quantizer="dorefa"
    )
    monkeypatch.setattr(DoReFaActivation, "grid", grid)
    with torch.autocast("cpu", torch.bfloat16), net.under("8-bit"):
        assert net(torch.ones(2, 1)).dtype is torch.bfloat16
    assert seen == [torch.float32]
