from pdqat.experiments.tables import Grid

GRID = Grid("Accuracy in %", ("bits", "ours"), (("2", "89.38 ± 0.34"), ("1", "-")))


def test_markdown_is_a_table_of_as_many_columns() -> None:
    lines = GRID.markdown().splitlines()
    assert lines[0] == "**Accuracy in %**"
    assert lines[2:] == ["| bits | ours |", "| --- | --- |", "| 2 | 89.38 ± 0.34 |", "| 1 | - |"]


def test_latex_escapes_what_latex_reads_otherwise() -> None:
    text = GRID.latex()
    assert r"2 & 89.38 $\pm$ 0.34 \\" in text
    assert r"\caption{Accuracy in \%}" in text
    assert text.count(r"\begin{tabular}{ll}") == 1


def test_latex_has_signs_and_arrows_where_text_has_hyphens() -> None:
    grid = Grid(
        "a_b", ("(ii) - baseline",), (("-4.59 [-21.93, +12.76], p = 1e-05",), ("0.180 -> 0.040",), ("not-a-sign $",))
    )
    lines = grid.latex().splitlines()
    assert r"(ii) $-$ baseline \\" in lines
    assert r"$-$4.59 [$-$21.93, +12.76], p = 1e-05 \\" in lines
    assert r"0.180 $\to$ 0.040 \\" in lines
    assert r"not-a-sign \$ \\" in lines
    assert r"\caption{a\_b}" in lines
