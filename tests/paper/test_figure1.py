"""What figure 1 says about entries."""

from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from entries_by_hand import cell, entry
from pdqat.paper import figures
from pdqat.paper.figure1 import figure1


def kept(count: int, largest: bool, seed: int, train: float, test: float) -> dict[str, Any]:
    layers = {f"layer{index}": 0.5 for index in range(count)}
    more = {"kept": layers, "kept_largest": largest, "train_accuracy_low": train}
    return cell("pdqat-layers", seed, test, 0.0125, bits=1) | more


def test_figure_1_compares_the_largest_multipliers_with_the_smallest() -> None:
    entries = [
        *(kept(2, True, seed, 0.80 + seed / 10, 0.70 + seed / 100) for seed in (0, 1)),
        *(kept(2, False, seed, 0.60, 0.60 - seed / 100) for seed in (0, 1)),
    ]
    artefact = figure1(entries)
    table, choice = artefact.tables
    smallest, largest = table.rows
    assert smallest[:5] == ("2", "smallest", "1.000", "60.00 ± 0.00 (n = 2)", "59.50 ± 0.71 (n = 2)")
    assert largest[:5] == ("2", "largest", "1.000", "85.00 ± 7.07 (n = 2)", "70.50 ± 0.71 (n = 2)")
    assert choice.rows[0][1].startswith("+11.00 [-1.71, +23.71], p = 0.058, n = 2")  # 10 and 12: standard error 1
    train, test = artefact.figures["c"].axes
    ours = [float(bars.lines[0].get_ydata()[0]) for axes in (train, test) for bars in axes.containers]  # type: ignore
    assert ours == pytest.approx([85, 60, 70.5, 59.5])
    (by_sum,) = artefact.figures["b"].axes
    drawn = [np.asarray(dots.get_offsets()).tolist() for dots in by_sum.collections]
    assert drawn == [[[1, pytest.approx(80)], [1, pytest.approx(90)]], [[1, 60], [1, 60]]]


def test_figure_1_says_how_many_times_smaller_distances_are() -> None:
    layers = {"a": 0.4, "stages.2.1.conv0": 0.1}
    squared = [
        {"layer_distances": {"squared": {name: value * part for name, value in layers.items()}}} for part in (1, 3, 9)
    ]
    multipliers = {"multipliers": {"output": [1.0], "a": [0.1], "stages.2.1.conv0": [0.2]}}
    less = {"layer_distances": {"squared": {"a": 0.08, "stages.2.1.conv0": 0.4}}}
    entries = [cell("pdqat-output", seed, 0.5, 0.9, bits=1) | squared[seed] for seed in (0, 1, 2)]
    entries += [cell("pdqat-layers", seed, 0.5, 0.0125, bits=1) | less | multipliers for seed in (0, 1)]
    table = figure1(entries).tables[0]
    assert "n = 2" in table.title
    assert table.rows[0] == ("a", "0.8000", "0.0800", "10.0", "")  # the mean of 0.4 and 1.2: seed 2 has no partner
    assert table.rows[1] == ("stages.2.1.conv0", "0.2000", "0.4000", "0.5", "0.180 -> 0.040")


def test_distances_of_different_seeds_are_not_compared() -> None:
    distances = {"layer_distances": {"squared": {"a": 0.4}}}
    multipliers = {"multipliers": {"output": [1.0], "a": [0.1]}}
    entries = [
        cell("pdqat-output", 1, 0.5, 0.9, bits=1) | distances,
        cell("pdqat-layers", 0, 0.5, 0.0125, bits=1) | distances | multipliers,
    ]
    artefact = figure1(entries)
    assert [table.title.split()[0] for table in artefact.tables] == ["Multipliers"]
    assert "a" not in artefact.figures


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
