import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.models.mobilenet import Separable, mobilenet_small
from pdqat.models.preresnet import Clip


def test_parameters_are_those_of_the_publication_at_a_quarter_of_the_width() -> None:
    """Keras counts 470,072 that are trained, of which 257,000 are in a head of 1,000 classes."""
    model = mobilenet_small()
    head = sum(parameter.numel() for parameter in model.head.parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) - head == 470_072 - 257_000


def test_a_block_follows_its_equation() -> None:
    torch.manual_seed(0)
    block = Separable(6, 10, 2).eval()
    x = torch.rand(2, 6, 8, 8)
    each = F.conv2d(x, block.depth.weight, stride=2, padding=1, groups=6)
    a = block.norm0(each).clamp(0, 1)
    expected = block.norm1(torch.einsum("oc,bchw->bohw", block.point.weight[:, :, 0, 0], a)).clamp(0, 1)
    torch.testing.assert_close(block(x), expected)


def test_four_blocks_halve_the_image() -> None:
    assert mobilenet_small().blocks(torch.rand(1, 8, 32, 32)).shape == (1, 256, 2, 2)


def test_clips_let_most_of_an_untrained_network_through() -> None:
    """What all clips in a row cut off, nothing behind them learns from."""
    torch.manual_seed(0)
    model = mobilenet_small().train()
    cut_off: list[float] = []

    def look(_: nn.Module, read: tuple[Tensor], passed: Tensor) -> None:
        cut_off.append(float((read[0] != passed).float().mean()))

    clips = [module for module in model.modules() if isinstance(module, Clip)]
    for clip in clips:
        clip.register_forward_hook(look)
    model(torch.randn(64, 3, 32, 32))
    assert len(cut_off) == 27
    assert max(cut_off) < 0.1
