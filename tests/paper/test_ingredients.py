"""What `ingredients` says about entries."""

from typing import Any

from entries_by_hand import entry
from pdqat.paper.ingredients import ingredients


def of(recipe: str, low: float | None, bits: int = 2, seconds: float = 100, processor: str = "one") -> dict[str, Any]:
    more = {"recipe": recipe, "bits": bits, "seconds": seconds, "processor": processor}
    return entry("", "", 0, low) | more


def test_each_ingredient_is_compared_with_the_base_of_its_bits() -> None:
    entries = [
        of("base", 0.80),
        of("warm-up", 0.82, seconds=75),
        of("lsq", 0.90, processor="other"),
        of("base", 0.70, bits=1),
        of("warm-up", 0.65, bits=1, seconds=80),
        of("float-twice-as-long", None, bits=32, seconds=150),
    ]
    two, one = ingredients(entries).tables
    assert two.title.endswith("because their processors differ: 1")
    rows = {row[0]: row[4:] for row in two.rows}
    assert rows == {
        "base": ("", "1.00"),
        "warm-up": ("+2.00, n = 1", "0.75"),
        "lsq": ("-", "-"),
        "float-twice-as-long": ("-", "1.50"),
    }
    assert {row[0]: row[4:] for row in one.rows}["warm-up"] == ("-5.00, n = 1", "0.80")
