"""Kinds of processors, and on which of them the sums of a file are right."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from deployed_networks import bytes_of_images, integers_throughout, residual, trained_like, verified_reference
from pdqat import prepare
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.integer.operations import IntegerProduct
from pdqat.deployment.processors import WITH_VNNI, WITHOUT_VNNI, kind_of_processor, kinds_it_holds_on
from pdqat.deployment.report import show_verified


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("flags\t\t: fpu sse4_1 avx2 avx512f avx512_vnni\n", "AVX-512 VNNI"),
        ("flags\t\t: fpu sse4_1 avx2 avx_vnni\n", "AVX VNNI"),
        ("flags\t\t: fpu sse4_1 avx avx2 fma\n", "AVX2"),
        ("Features\t: fp asimd asimddp\n", "Arm dot products"),
    ],
)
def test_the_kind_is_told_by_the_best_instructions(text: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor: 0\n{text}")
    assert kind_of_processor(tmp_path / "cpuinfo") == kind


def test_a_system_that_says_nothing_has_a_kind(tmp_path: Path) -> None:
    assert kind_of_processor(tmp_path / "missing")


@pytest.mark.parametrize("bits", ["1", "4", "8"])
def test_the_preset_makes_files_of_signed_weights_for_both_kinds(bits: str) -> None:
    frozen = integers_throughout("pre-activation", bits).frozen
    assert kinds_it_holds_on(frozen.module) == [WITH_VNNI, WITHOUT_VNNI]
    products = [part for part in frozen.module.children() if isinstance(part, IntegerProduct)]
    assert sum(not product.signed for product in products) <= 1  # the last one reads signed codes


def test_bytes_of_the_full_range_are_stored_unsigned() -> None:
    products = [part for part in residual("8").frozen.module.children() if isinstance(part, IntegerProduct)]
    assert not any(product.signed for product in products)
    assert kinds_it_holds_on(residual("8").frozen.module) == [WITH_VNNI, WITHOUT_VNNI]


@torch.no_grad()
def test_products_that_16_bits_cant_add_are_told() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)]
    x: Tensor = torch.rand(8, 4)
    frozen = Deployable.of(
        trained_like(prepare(torch.nn.Sequential(*layers), x, 8, quantizer="dorefa-bytes"), 1, (4,)), None, x
    ).frozen
    assert WITHOUT_VNNI in kinds_it_holds_on(frozen.module)
    product = next(part for part in frozen.module.children() if isinstance(part, IntegerProduct))
    product.signed = True
    product.weight.flatten()[0] = 127
    assert kinds_it_holds_on(frozen.module) == [WITH_VNNI]


def test_a_verification_says_where_it_was_made_and_where_it_holds() -> None:
    result = verified_reference(integers_throughout("pre-activation", "8"), bytes_of_images(8))
    assert result.processor == kind_of_processor()
    said = " ".join(show_verified([result]).split())
    assert f"({result.processor}); no sum of products saturates on processors with VNNI and without VNNI" in said
