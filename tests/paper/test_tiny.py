"""What `tiny` says about entries."""

from typing import Any

import numpy as np
import pytest

from entries_by_hand import entry
from pdqat.paper.tiny import tiny


def of(recipe: str, seed: int, low: float, bits: int = 2, processor: str = "one") -> dict[str, Any]:
    return entry("", "", seed, low) | {"recipe": recipe, "bits": bits, "processor": processor}


ENTRIES = [
    *(of("best", seed, low) for seed, low in enumerate((0.86, 0.85, 0.87))),
    *(of("ste", seed, low) for seed, low in enumerate((0.83, 0.82, 0.83))),
    *(of("brevitas", seed, low) for seed, low in enumerate((0.85, 0.86, 0.86))),
    *(of("lsq-warm", seed, 0.80, processor="other") for seed in range(3)),
    of("best", 0, 0.88, bits=8),
    of("ste", 0, 0.87, bits=8),
    of("float", 0, 0.90, bits=32),
]


def test_accuracies_are_means_by_recipe_and_bits() -> None:
    accuracies = tiny(ENTRIES).tables[0]
    rows = {row[0]: row[1:] for row in accuracies.rows}
    assert accuracies.headings[1:] == ("float", "8 bits", "4 bits", "2 bits", "1 bit")
    assert rows["best"] == ("", "88.00 (n = 1)", "-", "86.00 ± 1.00 (n = 3)", "-")
    assert rows["float"] == ("90.00 (n = 1)", "", "", "", "")


def test_differences_are_corrected_and_leave_out_pairs_of_two_processors() -> None:
    differences = tiny(ENTRIES).tables[1]
    assert "for 2 comparisons; pairs left out because their processors differ: 3" in differences.title
    rows = {row[:2]: row[2:] for row in differences.rows}
    assert list(rows) == [("8", "ste"), ("2", "ste"), ("2", "brevitas")]
    assert rows["8", "ste"] == ("+1.00", "", "", "", "1", "")
    # 3, 3, 4: mean 10/3, standard error 1/3, so t = 10 with two degrees of freedom, p = 0.0099, of two comparisons
    assert rows["2", "ste"] == ("+3.33", "[+1.90, +4.77]", "0.0099", "0.02", "3", "yes")
    # 1, -1, 1: t = 0.5
    assert rows["2", "brevitas"] == ("+0.33", "[-2.54, +3.20]", "0.67", "0.67", "3", "no")


def test_a_difference_that_is_the_same_for_all_seeds_is_not_tested() -> None:
    entries = [of(recipe, seed, low) for recipe, low in (("best", 0.75), ("ste", 0.5)) for seed in (0, 1)]
    differences = tiny(entries).tables[1]
    assert "for 0 comparisons" in differences.title
    assert differences.rows == (("2", "ste", "+25.00", "", "", "", "2", ""),)


def test_a_point_is_drawn_for_every_cell() -> None:
    (axes,) = tiny(ENTRIES).figures[""].axes
    best = axes.lines[0]
    assert best.get_label() == "best"
    assert np.asarray(best.get_ydata()).tolist() == pytest.approx([88, 86, 85, 87])


def test_recipes_are_shown_before_there_is_a_best() -> None:
    assert [table.title[:13] for table in tiny([of("ste", 0, 0.5)]).tables] == ["Test accuracy"]


def test_files_of_integers_stand_beside_what_was_simulated() -> None:
    found = {"model.onnx": {"onnxruntime": {"accuracy": 0.8612, "simulated_accuracy": 0.8613}}}
    exported = tiny([of("best", 0, 0.86) | {"exported": found}, of("ste", 0, 0.8) | {"exported": {}}]).tables[-1]
    assert exported.rows == (("2", "best", "0", "model.onnx", "onnxruntime", "86.12", "86.13"),)
