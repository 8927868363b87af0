"""Tables fit into the columns that there are, with nothing cut."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from pdqat.terminal import PlainConsole, counting, fitting, new_table, print_whole

NAME = "encoder.layers.11.attention.output.dense"


def made(columns: int = 8) -> Table:
    table = new_table("what is shown")
    table.add_column("layer", no_wrap=True)
    for index in range(columns):
        table.add_column(f"heading {index}", justify="right", no_wrap=True)
    for name in ("stem", NAME):
        table.add_row(name, *(f"{index}.0625" for index in range(columns)))
    return table


def printed(table: Table, width: int) -> list[str]:
    file = io.StringIO()
    print_whole(PlainConsole(file=file, width=width, color_system=None), table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


@given(st.integers(1, 12), st.integers(40, 120))
def test_no_line_is_longer_and_no_number_is_cut(columns: int, width: int) -> None:
    file = io.StringIO()
    console = PlainConsole(file=file, width=width, color_system=None)
    for part in fitting(made(columns), width):
        console.print(part)
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in file.getvalue()
    words = file.getvalue().split()
    assert [words.count(f"{index}.0625") for index in range(columns)] == [2] * columns
    assert words.count("stem") == len(fitting(made(columns), width))


def test_a_table_that_fits_is_left_as_it_is() -> None:
    table = made(2)
    assert fitting(table, 100) == [table]


def test_headings_are_folded_before_columns_are_moved_below() -> None:
    table = new_table()
    for heading in ("runtime", "choices that differ"):
        table.add_column(heading, no_wrap=True)
    table.add_row("onnxruntime", "0")
    (fitted,) = fitting(table, 25)
    assert fitted is not table


def test_without_a_terminal_a_table_is_as_wide_as_it_is() -> None:
    assert any(NAME in line and "7.0625" in line for line in printed(made(), 80))


def test_columns_says_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(made(), 80)
    assert max(map(len, lines)) <= 80
    assert sum("what is shown" in line for line in lines) == 1


@pytest.mark.parametrize("shown", [True, False])
def test_a_bar_counts_on_a_terminal_unless_it_is_not_wanted(
    shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with counting("layers measured", shown) as tell:
        tell(3, 7)
    said = capsys.readouterr().out
    assert ("layers measured" in said and "3/7" in said) if shown else not said


def test_without_a_terminal_nothing_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with counting("layers measured") as tell:
        tell(3, 7)
    assert not capsys.readouterr().out
