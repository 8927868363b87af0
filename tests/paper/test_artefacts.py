"""What tables say about entries, by hand."""

from typing import Any

from pdqat.paper.artefacts import gap


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
