"""What `scale` says about entries."""

from typing import Any

import numpy as np
import pytest

from entries_by_hand import entry
from pdqat.paper.scale import scale


def of(recipe: str, width: int, epochs: int, low: float, processor: str = "one") -> dict[str, Any]:
    return entry("", "", 0, low) | {"recipe": recipe, "width": width, "epochs": epochs, "processor": processor}


def test_the_gap_is_shown_and_drawn_where_both_sides_are_there() -> None:
    entries = [
        of("ste", 1, 2, 0.40),
        of("pdqat-layers-exact", 1, 2, 0.30),
        of("pdqat-layers-exact", 1, 20, 0.45),
        of("ste", 1, 20, 0.50),
        of("ste", 4, 2, 0.45),
        of("pdqat-layers-exact", 4, 2, 0.45, "other"),
    ]
    artefact = scale(entries)
    assert artefact.tables[0].title.endswith("because their processors differ: 1")
    rows = {row[:2]: row[2:] for row in artefact.tables[0].rows}
    assert rows["1", "2"] == ("40.00 (n = 1)", "30.00 (n = 1)", "30.00 (n = 1)", "-10.00, n = 1")
    assert rows["1", "20"][-1] == "-5.00, n = 1"
    assert rows["4", "2"][-1] == "-"
    (axes,) = artefact.figures[""].axes
    line, _ = axes.lines
    assert line.get_label() == "width 1"
    assert np.asarray(line.get_xydata()).tolist() == [[2, pytest.approx(-10)], [20, pytest.approx(-5)]]


def test_one_side_alone_is_shown_without_a_line() -> None:
    (axes,) = scale([of("ste", 1, 2, 0.4)]).figures[""].axes
    assert len(axes.lines) == 1
