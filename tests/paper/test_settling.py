"""How settled multipliers are said to be."""

import numpy as np
import pytest

from entries_by_hand import entry
from pdqat.paper.settling import settling


def test_settling_compares_with_the_first_rule_and_draws_distances_in_units_of_the_tolerance() -> None:
    multipliers = {"output": [1.0, 1.1, 1.2], "a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1]}
    slacks = {"output": [0.0, 0.0, 0.0], "a": [0.2, 0.1, 0.0], "b": [0.1, -0.05, -0.1]}
    moving = {"multipliers": multipliers, "slacks": slacks, "tolerance": 0.2}
    turned = {**moving, "multipliers": {**multipliers, "a": multipliers["b"], "b": multipliers["a"]}}
    entries = [
        entry("pdqat-layers", "kl-relative", 0, 0.5) | moving,
        entry("pdqat-layers", "kl-relative-nupi", 0, 0.6) | turned,
        entry("pdqat-layers", "kl-relative", 1, 0.7) | moving,
    ]
    artefact = settling(entries)
    # 0.3 - 0.1 and 0.1 - 0.3 over the last two epochs, of 0.4 in all; b misses complementary slackness by 0.1; the
    # output's multiplier came from 1.0 to 1.2
    layers, output = ("1.00", "0.100", "+0.000"), ("0.17", "0.000")
    assert artefact.tables[0].rows[1] == ("kl-relative-nupi", "0", *layers, *output, "60.00", "-1.00")
    first, other, *distances = artefact.figures[""].axes
    assert [axes.get_title() for axes in (first, other)] == ["kl-relative", "kl-relative-nupi"], "of one seed"
    drawn = [np.asarray(line.get_ydata()).tolist() for line in distances[0].lines[:2]]
    assert drawn == [pytest.approx([2, 1.5, 1]), pytest.approx([1.5, 0.75, 0.5])]
