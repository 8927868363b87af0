"""What Table 1 and its ablations say about entries."""

from entries_by_hand import cell
from pdqat.paper.table1 import ablation_layer, ablation_output, table1


def test_table_1_has_means_over_seeds_and_differences_over_pairs() -> None:
    entries = [
        cell("ste", 0, 0.60),
        cell("ste", 1, 0.64),
        cell("pdqat-output", 0, 0.55, 0.7),
        cell("pdqat-layers", 0, 0.61, 0.67),
        cell("pdqat-layers", 1, 0.63, 0.67),
        cell("full", 0, 0.70, bits=32),
    ]
    accuracies, differences = table1(entries).tables
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
    entries = [
        cell("pdqat-layers", 0, 0.50, 0.055, constraints_met=3, constraints=21),
        cell("pdqat-layers", 1, 0.52, 0.055, constraints_met=21, constraints=21),
        cell("pdqat-output", 0, 0.70, 0.055),
    ]
    rows = {row[:2]: row[2:] for row in ablation_layer(entries).tables[0].rows}
    assert rows["2", "0.055"] == ("51.00 ± 1.41 (n = 2)", "89.54", "3 of 21, 21 of 21")
    assert rows["2", "0.25"] == ("-", "89.58", "-")
    assert ablation_output([]).tables[0].rows[0][2:] == ("-", "91.39", "-")
