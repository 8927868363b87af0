"""Options as earlier versions wrote them."""

from typing import Any

import pytest

from pdqat.config.old_keys import modern, with_former_values
from pdqat.config.presets import resolve_config
from pdqat.errors import InputError


@pytest.mark.parametrize(
    ("old", "gradient", "tied_norms"),
    [
        ({"norm": "ste", "gradient": "exact"}, "norms", False),
        ({"norm": "exact", "gradient": "exact"}, "exact", False),
        ({"norm": "tied", "gradient": "exact"}, "exact", True),
        ({"norm": "ste", "gradient": "straight-through"}, "straight-through", False),
        ({"norm": "exact", "gradient": "straight-through"}, "straight-through", False),
        ({"norm": "tied", "gradient": "straight-through"}, "straight-through", True),
        ({"norm": "ste"}, "norms", False),
        ({"norm": "tied"}, "exact", True),
    ],
)
def test_norm_and_gradient_become_what_a_gradient_may_reach(
    old: dict[str, Any], gradient: str, tied_norms: bool
) -> None:
    config = resolve_config(None, old, {})
    assert (config.gradient, config.tied_norms) == (gradient, tied_norms)


def test_carry_is_take_over() -> None:
    assert resolve_config(None, {"carry": True, "init": "best.pt"}, {}).take_over
    with pytest.raises(InputError, match="take_over takes from the checkpoint in init, which is not given"):
        resolve_config(None, {"carry": True}, {})


@pytest.mark.parametrize(
    ("stored", "rate"),
    [({}, 0.01), ({"dual_rule": "nupi"}, 0.01), ({"dual_rule": "multiplicative"}, 0.5), ({"dual_rate": 0.3}, 0.3)],
)
def test_a_run_of_before_has_the_steps_that_it_had(stored: dict[str, Any], rate: float) -> None:
    former = with_former_values(stored)
    assert (former["dual_rate"], former["optimizer"]) == (rate, "adam")


def test_options_of_today_stay_as_they_are() -> None:
    today = {"gradient": "exact", "tied_norms": True, "take_over": False, "epochs": 3}
    assert modern(today) == today


@pytest.mark.parametrize("norm", ["layer", 3, ["ste"], None])
def test_an_unknown_norm_is_refused(norm: Any) -> None:
    with pytest.raises(InputError, match="norm must be one of ste, exact, tied, not "):
        resolve_config(None, {"norm": norm}, {})
