"""What tables say about entries, by hand."""

from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from pdqat.paper import figures
from pdqat.paper.artefacts import figure1, gap, settling


def entry(method: str, variant: str, seed: int, low: float | None) -> dict[str, Any]:
    accuracies = {f"{part}_accuracy_{view}": low for part in ("validation", "test") for view in ("low", "full")}
    return {"method": method, "variant": variant, "seed": seed, "epochs": 10, **accuracies}


def test_the_gap_says_what_each_variant_is_worth_over_the_same_seeds() -> None:
    found = [
        entry("ste", "short", 0, 0.60),
        entry("pdqat-layers", "short", 0, 0.50),
        entry("pdqat-layers", "kl", 0, 0.58),
        entry("full", "short", 0, None),
        entry("pdqat-layers", "short", 1, 0.52),
        entry("pdqat-layers", "kl", 1, 0.56),
    ]
    worth = gap(found).tables[1]
    rows = {row[0]: row[1:] for row in worth.rows}
    assert list(rows) == ["ste short", "pdqat-layers short", "pdqat-layers kl"], "full precision has no low one"
    assert rows["ste short"] == ("+10.00, n = 1", "")
    assert rows["pdqat-layers short"] == ("", "-10.00, n = 1")
    over_method, over_baseline = rows["pdqat-layers kl"]
    # differences 8 and 4: mean 6, standard error 2, 12.706 of them is the 97.5 % quantile of t with one degree
    assert over_method.startswith("+6.00 [-19.41, +31.41], p = 0.2, n = 2, not significant")
    assert over_baseline == "-2.00, n = 1"


def test_settling_compares_with_the_first_rule_and_draws_distances_in_units_of_the_tolerance() -> None:
    multipliers = {"output": [1.0, 1.1, 1.2], "a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1]}
    slacks = {"output": [0.0, 0.0, 0.0], "a": [0.2, 0.1, 0.0], "b": [0.1, -0.05, -0.1]}
    moving = {"multipliers": multipliers, "slacks": slacks, "tolerance": 0.2}
    turned = {**moving, "multipliers": {**multipliers, "a": multipliers["b"], "b": multipliers["a"]}}
    found = [
        entry("pdqat-layers", "kl-relative", 0, 0.5) | moving,
        entry("pdqat-layers", "kl-relative-nupi", 0, 0.6) | turned,
        entry("pdqat-layers", "kl-relative", 1, 0.7) | moving,
    ]
    artefact = settling(found)
    # 0.3 - 0.1 and 0.1 - 0.3 over the last two epochs, of 0.4 in all; b misses complementary slackness by 0.1
    assert artefact.tables[0].rows[1] == ("kl-relative-nupi", "0", "1.00", "0.100", "+0.000", "60.00", "-1.00")
    first, other, *distances = artefact.figures[""].axes
    assert [each.get_title() for each in (first, other)] == ["kl-relative", "kl-relative-nupi"], "of one seed"
    drawn = [np.asarray(line.get_ydata()).tolist() for line in distances[0].lines[:2]]
    assert drawn == [pytest.approx([2, 1.5, 1]), pytest.approx([1.5, 0.75, 0.5])]


def test_layer_distances_are_drawn_beside_the_papers() -> None:
    without, with_layers = {"stem": 0.3, "stages.2.1.conv0": 0.2}, {"stem": 0.03, "stages.2.1.conv0": 0.01}
    (axes,) = figures.distances(without, with_layers, tolerance=0.0125).axes
    assert [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)] == [0.3, 0.2, 0.03, 0.01]
    paper, tolerance = axes.lines
    assert np.asarray(paper.get_xydata()).tolist() == [[0.8, 0.180], [1.2, 0.040]], "over its own bar"
    assert np.asarray(tolerance.get_ydata()).tolist() == [0.0125, 0.0125]


def test_figure_1_compares_the_multipliers_of_layers_with_the_papers() -> None:
    multipliers = {
        "output": [1.0, 2.0],
        "stages.0.0.conv0": [0.9, 0.3],
        "stages.1.0.shortcut.conv": [0.1, 0.2],
        "stages.2.2.conv1": [0.5, 0.1],
    }
    where = {"bits": 1, "tolerance": 0.0125, "kept": None, "multipliers": multipliers}
    table = figure1([entry("pdqat-layers", "", 0, 0.5) | where]).tables[0]
    # the paper has the first two the other way round: ranks 3 2 1 against 2 3 1, so 1 - 6 x 2 / (3 x 8)
    assert table.title.endswith("rank correlation with the paper's 0.50")
    assert table.rows == (
        ("stages.0.0.conv0", "0.3000", "0.060"),
        ("stages.1.0.shortcut.conv", "0.2000", "0.069"),
        ("stages.2.2.conv1", "0.1000", "0.020"),
    )
