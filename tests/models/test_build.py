import pytest
import torch
from torch import nn

from pdqat.errors import InputError
from pdqat.models import NAMES, build


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("image_shape", [(1, 4, 4), (1, 8, 8), (3, 32, 32), (2, 9, 5)])
def test_logits_have_a_column_per_class(name: str, image_shape: tuple[int, int, int]) -> None:
    model = build(name, width=1, classes=7, image_shape=image_shape)
    assert model(torch.rand(2, *image_shape)).shape == (2, 7)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, width=1, classes=10, image_shape=(3, 8, 8))
    nn.functional.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.arange(4)).backward()  # type: ignore[no-untyped-call]
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []


@pytest.mark.parametrize("name", NAMES)
def test_width_multiplies_the_channels(name: str) -> None:
    narrow, wide = (build(name, width, 10, (3, 8, 8)).get_submodule("head") for width in (1, 3))
    assert isinstance(narrow, nn.Linear)
    assert isinstance(wide, nn.Linear)
    assert wide.in_features == 3 * narrow.in_features


def test_small_model_has_eight_layers_between_stem_and_head() -> None:
    model = build("preresnet-small", 1, 10, (1, 8, 8))
    assert sum(isinstance(module, nn.Conv2d | nn.Linear) for module in model.modules()) == 8 + 2


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(InputError, match="'vgg16' is unknown") as error:
        build("vgg16", 1, 10, (3, 32, 32))
    assert all(name in str(error.value) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [0, -2])
def test_width_is_at_least_one(name: str, width: int) -> None:
    with pytest.raises(InputError, match=f"width {width} .*at least 1"):
        build(name, width, 10, (3, 32, 32))


@pytest.mark.parametrize("classes", [-1, 0, 1])
def test_classes_are_at_least_two(classes: int) -> None:
    with pytest.raises(InputError, match=f" {classes} classes .*at least 2"):
        build("resnet20", 1, classes, (3, 32, 32))


@pytest.mark.parametrize("image_shape", [(3, 3, 32), (3, 32, 3), (0, 32, 32), (32, 32), (1, 3, 32, 32), ()])
def test_images_have_channels_and_enough_pixels(image_shape: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match=r"at least 1 channel and 4 x 4 pixels") as error:
        build("preresnet20", 1, 10, image_shape)
    assert str(tuple(image_shape)) in str(error.value)
