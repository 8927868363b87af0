import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.errors import InputError
from pdqat.models.resnet import Block, ResNet, resnet

State = dict[str, Tensor]


def norm(state: State, name: str, x: Tensor) -> Tensor:
    """Batch norm in training mode, from the batch's own statistics."""
    return F.batch_norm(x, None, None, state[f"{name}.weight"], state[f"{name}.bias"], training=True)


def block(state: State, name: str, x: Tensor, stride: int) -> Tensor:
    h = F.conv2d(x, state[f"{name}conv0.weight"], stride=stride, padding=1)
    h = F.conv2d(norm(state, f"{name}norm0", h).relu(), state[f"{name}conv1.weight"], padding=1)
    h = norm(state, f"{name}norm1", h)
    if stride == 1:
        return (h + x).relu()
    projected = F.conv2d(x, state[f"{name}shortcut.conv.weight"], stride=stride)
    return (h + norm(state, f"{name}shortcut.norm", projected)).relu()


def randomize_norms_(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)


@pytest.mark.parametrize(("outputs", "stride"), [(6, 1), (12, 2), (6, 2)])
def test_block_follows_its_equation(outputs: int, stride: int) -> None:
    torch.manual_seed(0)
    model = Block(6, outputs, stride)
    randomize_norms_(model)
    x = torch.randn(3, 6, 8, 8)
    torch.testing.assert_close(model(x), block(model.state_dict(), "", x, stride))


def test_network_follows_its_equation() -> None:
    torch.manual_seed(1)
    model = ResNet(blocks=2, widths=(4, 6, 8), classes=5, channels=2)
    randomize_norms_(model)
    state = model.state_dict()
    x = torch.randn(8, 2, 12, 12)
    h = norm(state, "norm", F.conv2d(x, state["stem.weight"], padding=1)).relu()
    for name, stride in (("0.0", 1), ("0.1", 1), ("1.0", 2), ("1.1", 1), ("2.0", 2), ("2.1", 1)):
        h = block(state, f"stages.{name}.", h, stride)
    expected = h.mean(dim=(2, 3)) @ state["head.weight"].T + state["head.bias"]
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-4)


def test_identity_shortcut_takes_the_input() -> None:
    model = Block(4, 4, 1)
    nn.init.zeros_(model.conv1.weight)
    x = 10 * torch.randn(2, 4, 5, 5)
    assert model.shortcut is None
    torch.testing.assert_close(model(x), x.relu(), rtol=0, atol=0)


# He et al. (2015), Table 6: 0.27 M, 0.46 M and 0.85 M; there with parameter-free shortcuts, here 2,752 more.
@pytest.mark.parametrize(("depth", "parameters"), [(20, 269_722), (32, 464_154), (56, 853_018)])
def test_parameters_and_convolutions(depth: int, parameters: int) -> None:
    model = resnet(depth)
    shortcuts = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64
    assert sum(p.numel() for p in model.parameters()) == parameters + shortcuts
    assert sum(isinstance(module, nn.Conv2d) for module in model.modules()) == 1 + (depth - 2) + 2


@pytest.mark.parametrize("depth", [2, 18, 34])
def test_depth_must_be_6n_plus_2(depth: int) -> None:
    with pytest.raises(InputError, match=rf"depth {depth} .*6n \+ 2"):
        resnet(depth)
