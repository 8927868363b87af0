"""What variants are said to be worth."""

from typing import Any

from entries_by_hand import entry
from pdqat.paper.variants import gap


def variant(trained: str, seed: int, low: float | None) -> dict[str, Any]:
    return entry(trained.partition("-2bit")[0], "", seed, low) | {"cell": f"{trained}-seed{seed}", "bits": 2}


def test_the_gap_says_what_each_variant_is_worth_over_the_same_seeds() -> None:
    baseline, method, kl = "ste-2bit", "pdqat-layers-2bit-0.67", "pdqat-layers-2bit-0.67-kl"
    entries = [
        variant(baseline, 0, 0.60),
        variant(method, 0, 0.50),
        variant(kl, 0, 0.58),
        entry("full", "", 0, None) | {"cell": "full-32bit-seed0", "bits": 32},
        variant(method, 1, 0.52),
        variant(kl, 1, 0.56),
    ]
    accuracies, worth = gap(entries).tables
    assert accuracies.rows[1][3] == "51.00 ± 1.41 (n = 2)"
    rows = {row[0]: row[1:] for row in worth.rows}
    assert list(rows) == [baseline, method, kl], "full precision has no low one"
    assert rows[baseline] == ("+10.00, n = 1", "")
    assert rows[method] == ("", "-10.00, n = 1")
    over_method, over_baseline = rows[kl]
    # differences 8 and 4: mean 6, standard error 2, 12.706 of them is the 97.5 % quantile of t with one degree
    assert over_method.startswith("+6.00 [-19.41, +31.41], p = 0.2, n = 2, not significant")
    assert over_baseline == "-2.00, n = 1"
