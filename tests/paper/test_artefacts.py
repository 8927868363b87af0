"""What tables say about entries, by hand."""

from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from pdqat.paper import figures
from pdqat.paper.artefacts import ablation_layer, ablation_output, figure1, gap, settling, table1


def entry(method: str, variant: str, seed: int, low: float | None) -> dict[str, Any]:
    accuracies = {f"{part}_accuracy_{view}": low for part in ("validation", "test") for view in ("low", "full")}
    return {"method": method, "variant": variant, "seed": seed, "epochs": 10, **accuracies}


def variant(trained: str, seed: int, low: float | None) -> dict[str, Any]:
    return entry(trained.partition("-2bit")[0], "", seed, low) | {"cell": f"{trained}-seed{seed}", "bits": 2}


def test_the_gap_says_what_each_variant_is_worth_over_the_same_seeds() -> None:
    baseline, method, kl = "ste-2bit", "pdqat-layers-2bit-0.67", "pdqat-layers-2bit-0.67-kl"
    found = [
        variant(baseline, 0, 0.60),
        variant(method, 0, 0.50),
        variant(kl, 0, 0.58),
        entry("full", "", 0, None) | {"cell": "full-32bit-seed0", "bits": 32},
        variant(method, 1, 0.52),
        variant(kl, 1, 0.56),
    ]
    accuracies, worth = gap(found).tables
    assert accuracies.rows[1][3] == "51.00 ± 1.41 (n = 2)"
    rows = {row[0]: row[1:] for row in worth.rows}
    assert list(rows) == [baseline, method, kl], "full precision has no low one"
    assert rows[baseline] == ("+10.00, n = 1", "")
    assert rows[method] == ("", "-10.00, n = 1")
    over_method, over_baseline = rows[kl]
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
    # 0.3 - 0.1 and 0.1 - 0.3 over the last two epochs, of 0.4 in all; b misses complementary slackness by 0.1; the
    # output's multiplier came from 1.0 to 1.2
    layers, output = ("1.00", "0.100", "+0.000"), ("0.17", "0.000")
    assert artefact.tables[0].rows[1] == ("kl-relative-nupi", "0", *layers, *output, "60.00", "-1.00")
    first, other, *distances = artefact.figures[""].axes
    assert [each.get_title() for each in (first, other)] == ["kl-relative", "kl-relative-nupi"], "of one seed"
    drawn = [np.asarray(line.get_ydata()).tolist() for line in distances[0].lines[:2]]
    assert drawn == [pytest.approx([2, 1.5, 1]), pytest.approx([1.5, 0.75, 0.5])]


def cell(method: str, seed: int, low: float, tolerance: float | None = None, **more: Any) -> dict[str, Any]:
    return entry(method, "", seed, low) | {"bits": 2, "tolerance": tolerance, "kept": None} | more


def test_table_1_has_means_over_seeds_and_differences_over_pairs() -> None:
    found = [
        cell("ste", 0, 0.60),
        cell("ste", 1, 0.64),
        cell("pdqat-output", 0, 0.55, 0.7),
        cell("pdqat-layers", 0, 0.61, 0.67),
        cell("pdqat-layers", 1, 0.63, 0.67),
        cell("full", 0, 0.70, bits=32),
    ]
    accuracies, differences = table1(found).tables
    rows = {row[0]: row[1:] for row in accuracies.rows}
    assert list(rows) == ["32", "8", "4", "2", "1"]
    assert rows["32"][:2] == ("70.00 (n = 1)", "91.50 ± 0.26")
    # 60 and 64: deviations of 2 from 62, so a standard deviation of the square root of 8
    assert rows["2"] == (
        *("62.00 ± 2.83 (n = 2)", "89.38 ± 0.34"),
        *("55.00 (n = 1)", "89.43 ± 0.24"),
        *("62.00 ± 1.41 (n = 2)", "89.63 ± 0.14"),
    )
    assert rows["1"] == ("-", "84.91 ± 0.36", "-", "85.29 ± 0.27", "-", "85.52 ± 0.33")
    over = dict(zip(differences.headings, differences.rows[2], strict=True))
    assert over["(i) - baseline"] == "-5.00, n = 1"
    assert over["(ii) - (i)"] == "+6.00, n = 1"
    # +1 and -1: a standard error of 1
    assert over["(ii) - baseline"] == "+0.00 [-12.71, +12.71], p = 1, n = 2, not significant"


def test_ablations_say_how_many_constraints_are_met() -> None:
    found = [
        cell("pdqat-layers", 0, 0.50, 0.055, constraints_met=3, constraints=21),
        cell("pdqat-layers", 1, 0.52, 0.055, constraints_met=21, constraints=21),
        cell("pdqat-output", 0, 0.70, 0.055),
    ]
    rows = {row[:2]: row[2:] for row in ablation_layer(found).tables[0].rows}
    assert rows["2", "0.055"] == ("51.00 ± 1.41 (n = 2)", "89.54", "3 of 21, 21 of 21")
    assert rows["2", "0.25"] == ("-", "89.58", "-")
    assert ablation_output([]).tables[0].rows[0][2:] == ("-", "91.39", "-")


def kept(count: int, largest: bool, seed: int, train: float, test: float) -> dict[str, Any]:
    layers = {f"layer{index}": 0.5 for index in range(count)}
    more = {"kept": layers, "kept_largest": largest, "train_accuracy_low": train}
    return cell("pdqat-layers", seed, test, 0.0125, bits=1) | more


def test_figure_1_compares_the_largest_multipliers_with_the_smallest() -> None:
    found = [
        *(kept(2, True, seed, 0.80 + seed / 10, 0.70 + seed / 100) for seed in (0, 1)),
        *(kept(2, False, seed, 0.60, 0.60 - seed / 100) for seed in (0, 1)),
    ]
    artefact = figure1(found)
    table, choice = artefact.tables
    smallest, largest = table.rows
    assert smallest[:5] == ("2", "smallest", "1.000", "60.00 ± 0.00 (n = 2)", "59.50 ± 0.71 (n = 2)")
    assert largest[:5] == ("2", "largest", "1.000", "85.00 ± 7.07 (n = 2)", "70.50 ± 0.71 (n = 2)")
    assert choice.rows[0][1].startswith("+11.00 [-1.71, +23.71], p = 0.058, n = 2")  # 10 and 12: standard error 1
    train, test = artefact.figures["c"].axes
    ours = [float(each.lines[0].get_ydata()[0]) for axes in (train, test) for each in axes.containers]  # type: ignore
    assert ours == pytest.approx([85, 60, 70.5, 59.5])
    (by_sum,) = artefact.figures["b"].axes
    drawn = [np.asarray(each.get_offsets()).tolist() for each in by_sum.collections]
    assert drawn == [[[1, pytest.approx(80)], [1, pytest.approx(90)]], [[1, 60], [1, 60]]]


def test_figure_1_says_how_many_times_smaller_distances_are() -> None:
    layers = {"a": 0.4, "stages.2.1.conv0": 0.1}
    squared = [
        {"layer_distances": {"squared": {name: value * part for name, value in layers.items()}}} for part in (1, 3, 9)
    ]
    multipliers = {"multipliers": {"output": [1.0], "a": [0.1], "stages.2.1.conv0": [0.2]}}
    less = {"layer_distances": {"squared": {"a": 0.08, "stages.2.1.conv0": 0.4}}}
    found = [cell("pdqat-output", seed, 0.5, 0.9, bits=1) | squared[seed] for seed in (0, 1, 2)]
    found += [cell("pdqat-layers", seed, 0.5, 0.0125, bits=1) | less | multipliers for seed in (0, 1)]
    table = figure1(found).tables[0]
    assert "n = 2" in table.title
    assert table.rows[0] == ("a", "0.8000", "0.0800", "10.0", "")  # the mean of 0.4 and 1.2: seed 2 has no partner
    assert table.rows[1] == ("stages.2.1.conv0", "0.2000", "0.4000", "0.5", "0.180 -> 0.040")


def test_distances_of_different_seeds_are_not_compared() -> None:
    distances = {"layer_distances": {"squared": {"a": 0.4}}}
    multipliers = {"multipliers": {"output": [1.0], "a": [0.1]}}
    found = [
        cell("pdqat-output", 1, 0.5, 0.9, bits=1) | distances,
        cell("pdqat-layers", 0, 0.5, 0.0125, bits=1) | distances | multipliers,
    ]
    artefact = figure1(found)
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
