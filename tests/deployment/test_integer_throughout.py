"""Networks that are integers from the image to the scores."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from deployed_networks import (
    BUILDERS,
    bytes_of_images,
    integers_throughout,
    labelled,
    small_resnet,
    trained_like,
    verified_reference,
)
from pdqat import prepare
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.export import export
from pdqat.deployment.formats.c_folder import write_folder
from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.formats.c_program import Program
from pdqat.deployment.formats.c_session import Library
from pdqat.deployment.integer.operations import RealProduct, ScaleShift, ToCodes, ToReal
from pdqat.deployment.integer.sum_operations import PooledSums

IN_REALS = (ToReal, ScaleShift)


@pytest.mark.parametrize("quantizer", ["normal-bytes", "dorefa-bytes"])
@pytest.mark.parametrize("bits", ["1", "2", "8"])
@pytest.mark.parametrize("name", BUILDERS)
def test_nothing_between_the_image_and_the_scores_is_a_real_number(name: str, bits: str, quantizer: str) -> None:
    deployed = integers_throughout(name, bits, quantizer)
    frozen = deployed.frozen
    assert not frozen.real_layers
    kinds = [type(part) for part in frozen.module.children()]
    assert kinds.count(ToCodes) == kinds.count(RealProduct) == kinds.count(PooledSums) == 1
    assert not set(kinds) & set(IN_REALS)
    assert frozen.in_integers
    assert verified_reference(deployed, bytes_of_images(40)).passes


@torch.no_grad()
def operation(model: Deployable, kind: type) -> tuple[Any, Tensor, Tensor]:
    """The only one of a kind, with what it reads and makes of images."""
    (found,) = [part for part in model.frozen.module.children() if isinstance(part, kind)]
    seen: list[tuple[Tensor, Tensor]] = []
    hook = found.register_forward_hook(lambda _, args, output: seen.append((args[0], output)))
    model.frozen.module(bytes_of_images(16))
    hook.remove()
    return found, *seen[0]


def test_the_first_layer_reads_the_bytes_of_the_image() -> None:
    _, images, codes = operation(integers_throughout("pre-activation", "2"), ToCodes)
    assert codes.tolist() == torch.round(images * 255).int().tolist()
    assert codes.max() == 255


@pytest.mark.parametrize("bits", ["1", "8"])
def test_scores_are_whole_numbers_of_32_bits(bits: str) -> None:
    product, codes, outputs = operation(integers_throughout("standard", bits), RealProduct)
    scores = product.accumulate(codes).long() * 2**product.scores.shift + product.scores.offset
    assert scores.abs().max() < 2**31
    torch.testing.assert_close((scores.double() * product.scores.step).float(), outputs)
    bias = dict(integers_throughout("standard", bits).net.model.named_parameters())["head.bias"].detach().double()
    assert (product.scores.offset.double() * product.scores.step - bias).abs().max() <= 0.5001 * product.scores.step


class Ending(nn.Module):
    """A network that ends in a mean of anything that pdqat keeps in integers."""

    def __init__(self, draw: Any) -> None:
        super().__init__()
        width = draw(st.sampled_from([4, 8]))
        parts: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
        for _ in range(draw(st.integers(0, 2))):
            parts += [nn.Conv2d(width, width, 3, groups=draw(st.sampled_from([1, width]))), nn.BatchNorm2d(width)]
            parts += [draw(st.sampled_from([nn.ReLU, nn.ReLU6]))()]
        ending = {
            "norm": nn.BatchNorm2d(width),
            "bent norm": nn.Sequential(nn.BatchNorm2d(width), nn.ReLU()),
            "clipped": nn.Sequential(nn.BatchNorm2d(width), nn.Hardtanh(0, 1)),
            "pooled": nn.Sequential(nn.ReLU(), nn.BatchNorm2d(width)),
            "bent": nn.ReLU6(),
            "plain": nn.Identity(),
        }
        parts += [nn.Conv2d(width, width, 1), ending[draw(st.sampled_from(list(ending)))]]
        self.body, self.head = nn.Sequential(*parts), nn.Linear(width, 5)
        self.pools = draw(st.booleans())

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        x = nn.functional.adaptive_avg_pool2d(x, 1).flatten(1) if self.pools else x.mean((2, 3))
        scores: Tensor = self.head(x)
        return scores


@settings(max_examples=15)
@given(st.data(), st.sampled_from(["1", "2", "4", "8", "w2a4"]), st.integers(0, 99))
def test_whatever_a_mean_adds_up_is_whole(data: st.DataObject, bits: str, seed: int) -> None:
    torch.manual_seed(seed)
    model = Ending(data.draw)
    net = prepare(model, bytes_of_images(8), bits, ends=8, quantizer="normal-bytes", integer_sums=True)
    deployed = Deployable.of(trained_like(net, seed, draw=torch.rand), None, bytes_of_images(8))
    assert deployed.frozen.in_integers
    assert not Model(Program(deployed.frozen.module, deployed.read_example)).footprint.real
    assert verified_reference(deployed, bytes_of_images(20)).passes


@pytest.mark.parametrize(("file", "form"), [("model.onnx", "onnx"), ("model.xml", "openvino"), ("model", "c")])
@pytest.mark.parametrize("name", BUILDERS)
def test_files_are_right_in_every_runtime(name: str, file: str, form: str, tmp_path: Path) -> None:
    deployed, images = integers_throughout(name, "2"), bytes_of_images(40)
    report = export(deployed.net, tmp_path / file, images, check=labelled(deployed.net, images), format=form)
    assert report.verified
    assert all(result.passes for result in report.verified)
    assert report.in_integers
    assert "whole numbers from the input to the scores" in str(report)
    assert report.footprint is None or not report.footprint.real


def test_scales_of_channels_leave_scores_real() -> None:
    torch.manual_seed(0)
    net = prepare(small_resnet(), bytes_of_images(8), 4, ends=8, quantizer="uniform-channel", integer_sums=True)
    deployed = Deployable.of(trained_like(net, 1, draw=torch.rand), None, bytes_of_images(8))
    assert not deployed.frozen.in_integers
    product, _, _ = operation(deployed, RealProduct)
    assert product.scores is None
    assert verified_reference(deployed, bytes_of_images(20)).passes


@pytest.mark.parametrize("name", ["pre-activation", "ReLU before the mean"])
@torch.no_grad()
def test_in_c_bytes_go_in_and_the_references_scores_come_out(name: str, tmp_path: Path) -> None:
    deployed, images = integers_throughout(name, "2"), bytes_of_images(16)
    written = Model(Program(deployed.frozen.module, deployed.read_example))
    write_folder(written, images, tmp_path / "model")
    library = Library(written, tmp_path / "model", tmp_path, observed=False)
    scores, _ = library.run_numbers(torch.round(images * 255).to(torch.uint8).numpy())
    product, codes, _ = operation(deployed, RealProduct)
    whole = product.accumulate(codes).long() * 2**product.scores.shift + product.scores.offset
    assert scores.tolist() == whole.tolist()
    header = (tmp_path / "model" / "model.h").read_text()
    assert "typedef uint8_t model_input_t;" in header
    assert "typedef int32_t model_score_t;" in header
    behind_types = (tmp_path / "model" / "model.c").read_text().split("} convolution;")[1]
    assert "float" not in behind_types.replace("by_float32", "")
