import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.errors import InputError
from pdqat.models.preresnet import Block, Clip, PreResNet, preresnet, preresnet_small

State = dict[str, Tensor]


def randomize_norms_(model: nn.Module) -> None:
    """Fresh norms are close to the identity in evaluation mode and would hide a missing or misplaced one."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.8)
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)


def norm(state: State, name: str, x: Tensor) -> Tensor:
    mean, var, scale, shift = (
        state[f"{name}.{key}"].view(1, -1, 1, 1) for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / torch.sqrt(var + 1e-5) * scale + shift


def block(state: State, name: str, x: Tensor, stride: int) -> Tensor:
    a = norm(state, f"{name}norm0", x).clamp(0, 1)
    h = F.conv2d(a, state[f"{name}conv0.weight"], stride=stride, padding=1)
    h = norm(state, f"{name}norm1", h).clamp(0, 1)
    h = F.conv2d(h, state[f"{name}conv1.weight"], padding=1)
    if stride == 1:
        return h + x
    projected = F.conv2d(a, state[f"{name}shortcut.conv.weight"], stride=stride)
    return h + norm(state, f"{name}shortcut.norm", projected)


@pytest.mark.parametrize(("outputs", "stride"), [(6, 1), (12, 2), (6, 2)])
def test_block_follows_its_equation(outputs: int, stride: int) -> None:
    torch.manual_seed(0)
    model = Block(6, outputs, stride).eval()
    randomize_norms_(model)
    x = torch.randn(3, 6, 8, 8)
    torch.testing.assert_close(model(x), block(model.state_dict(), "", x, stride))


def test_network_follows_its_equation() -> None:
    torch.manual_seed(1)
    model = PreResNet(blocks=2, widths=(4, 6, 8), classes=5, channels=2).eval()
    randomize_norms_(model)
    state = model.state_dict()
    x = torch.randn(3, 2, 12, 12)
    h = F.conv2d(x, state["stem.weight"], padding=1)
    for name, stride in (("0.0", 1), ("0.1", 1), ("1.0", 2), ("1.1", 1), ("2.0", 2), ("2.1", 1)):
        h = block(state, f"stages.{name}.", h, stride)
    expected = norm(state, "norm", h).mean(dim=(2, 3)) @ state["head.weight"].T + state["head.bias"]
    torch.testing.assert_close(model(x), expected)


def test_identity_shortcut_takes_the_unclipped_input() -> None:
    model = Block(4, 4, 1)
    nn.init.zeros_(model.conv1.weight)
    x = 10 * torch.randn(2, 4, 5, 5)
    assert model.shortcut is None
    torch.testing.assert_close(model(x), x, rtol=0, atol=0)


def test_clip() -> None:
    x = torch.tensor([-2.0, 0.0, 0.3, 1.0, 7.0])
    assert Clip()(x).tolist() == torch.tensor([0.0, 0.0, 0.3, 1.0, 1.0]).tolist()


@pytest.mark.parametrize(("width", "total", "without_norms"), [(1, 272_474, 0.27), (5, 6_758_810, 6.75)])
def test_parameters_of_depth_20(width: int, total: int, without_norms: float) -> None:
    model = preresnet(20, width)
    norms = sum(p.numel() for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters())
    assert sum(p.numel() for p in model.parameters()) == total
    assert round((total - norms) / 1e6, 2) == without_norms


@pytest.mark.parametrize(("depth", "convs"), [(8, 8), (20, 20), (32, 32), (56, 56)])
def test_convolutions_besides_the_stem(depth: int, convs: int) -> None:
    names = [name for name, module in preresnet(depth).named_modules() if isinstance(module, nn.Conv2d)]
    assert names[0] == "stem"
    assert len(names) - 1 == convs
    assert [name for name in names if "shortcut" in name] == ["stages.1.0.shortcut.conv", "stages.2.0.shortcut.conv"]


def test_layer_names_are_stable() -> None:
    layers = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)
    assert [name for name, module in preresnet_small().named_modules() if isinstance(module, layers)] == [
        "stem",
        "stages.0.0.norm0",
        "stages.0.0.conv0",
        "stages.0.0.norm1",
        "stages.0.0.conv1",
        "stages.1.0.norm0",
        "stages.1.0.shortcut.conv",
        "stages.1.0.shortcut.norm",
        "stages.1.0.conv0",
        "stages.1.0.norm1",
        "stages.1.0.conv1",
        "stages.2.0.norm0",
        "stages.2.0.shortcut.conv",
        "stages.2.0.shortcut.norm",
        "stages.2.0.conv0",
        "stages.2.0.norm1",
        "stages.2.0.conv1",
        "norm",
        "head",
    ]


def test_only_the_head_has_a_bias_besides_the_norms() -> None:
    layers = (nn.Conv2d, nn.Linear)
    with_bias = [n for n, m in preresnet(20).named_modules() if isinstance(m, layers) and m.bias is not None]
    assert with_bias == ["head"]


def test_convolutions_start_with_the_variance_of_he() -> None:
    torch.manual_seed(2)
    weight = preresnet(20, width=2).get_submodule("stages.2.0.conv0").weight
    assert isinstance(weight, Tensor)
    fan_out = 128 * 9
    assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)
    assert abs(weight.mean().item()) < 1e-3


@pytest.mark.parametrize("depth", [-4, 0, 2, 7, 18, 21, 34])
def test_depth_must_be_6n_plus_2(depth: int) -> None:
    with pytest.raises(InputError, match=rf"depth {depth} .*6n \+ 2"):
        preresnet(depth)
