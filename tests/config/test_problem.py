"""The problem that a configuration names."""

from typing import Any

import pytest

from configured import build, small
from pdqat.errors import InputError


def tolerances(**changes: Any) -> dict[str, float]:
    """By place; "" is the output."""
    return {bound.where: bound.tolerance for bound in build(small(**changes)).problem.bounds}


def test_tolerances_are_by_name_then_pattern_then_the_layers_then_bits() -> None:
    given = {"stages.*": 0.2, "stages.0.0.conv0": 0.05, "*.shortcut.conv": 0.4}
    named = tolerances(output_tolerance=0.7, layer_tolerance=0.1, tolerances=given)
    assert (named[""], named["stages.0.0.conv0"], named["stages.1.0.shortcut.conv"]) == (0.7, 0.05, 0.2)
    rest = tolerances(layer_tolerance=0.1, tolerances={"stages.2.*": 0.2})
    assert (rest["stages.0.0.conv0"], rest["stages.2.0.conv0"]) == (0.1, 0.2)
    every = tolerances(layer_tolerance=0.1, tolerances={"*": 0.45})
    assert set(every.values()) - {every[""]} == {0.45}
    none = {"output_tolerance": None, "layer_tolerance": None, "layer_distance": "squared"}
    by_bits = tolerances(bits=["3"], tolerances={"stages.2.*": 0.2}, **none)
    assert (by_bits[""], by_bits["stages.0.0.conv0"], by_bits["stages.2.0.conv0"]) == ((1 / 7) ** 2, 1 / 7, 0.2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layers": {"*": "full"}}, "nothing to quantise"),
        ({"layers": {"stages.9.*": "4"}}, "the layer rule 'stages.9.\\*' matches no layer"),
        ({"tolerances": {"stages.9.*": 0.1}}, "the tolerance for 'stages.9.\\*' matches no layer"),
        ({"level": "block", "blocks": ["stages.9"]}, "block 'stages.9' is not a submodule with layers"),
        ({"bits": ["2", "2"]}, "each plan needs a name of its own"),
        ({"bits": ["full"]}, "a plan can't be called 'full'"),
        ({"train_images": 5000}, "train_images is 5000, but there are only 1298"),
        ({"validation": 0.0001}, "nothing to validate on"),
        ({"data_path": "digits.csv"}, "digits.csv can't be given"),
    ],
)
def test_what_only_data_and_model_can_refuse_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build(small(**changes))
