"""Names that strangers chose reach the terminal as text, and nothing that a terminal would obey."""

import ast
import io
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdqat
from command_line import refusal
from pdqat.commands.show import show_summary
from pdqat.printing import complain, printable, say_as_json
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole, as_text, new_table, print_whole

HOSTILE = "[bold]layer[/bold]:smile:\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\udcff"
SHOWN = r"[bold]layer[/bold]:smile:\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\udcff"
SOURCES = Path(pdqat.__file__).parent


def is_harmless(text: str) -> bool:
    categories = {unicodedata.category(character) for character in text.replace("\n", "").replace("\t", "")}
    return not categories & {"Cc", "Cs", "Zl", "Zp"} and "\u202e" not in text


@given(st.text(st.characters()))
def test_any_text_becomes_harmless_and_can_be_encoded(text: str) -> None:
    for encoding in ("utf-8", "ascii", "latin-1"):
        shown = printable(text, encoding)
        shown.encode(encoding)
        assert is_harmless(shown)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_lines_tables_and_headings_show_a_name_as_it_is() -> None:
    written = io.StringIO()
    console = PlainConsole(file=written, width=200, force_terminal=True, color_system=None)
    table = new_table(HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    console.print(HOSTILE)
    print_whole(console, table)
    assert is_harmless(written.getvalue())
    assert written.getvalue().count(SHOWN) == 4
    assert as_text([table, HOSTILE]).count(SHOWN) == 4


def test_an_error_shows_a_name_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert f"/nowhere/{SHOWN}" in refusal(capsys, "show", f"/nowhere/{HOSTILE}")


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    say_as_json({"name": "\x7f\x1b"})
    assert capsys.readouterr().out == '{\n  "name": "\\u007f\\u001b"\n}\n'


def test_a_summary_shows_names_as_they_are() -> None:
    bound = {"kind": "layer", "where": HOSTILE, "view": HOSTILE, "satisfied": False}
    numbers = dict.fromkeys(("tolerance", "distance", "slack", "multiplier"), 0.5)
    summary = {
        "accuracy": {HOSTILE: {HOSTILE: 0.5}},
        "constraints": [{**bound, **numbers}],
        "plans": {HOSTILE: {HOSTILE: HOSTILE}},
        "method": HOSTILE,
        **dict.fromkeys(("chosen_epoch", "epochs", "parameters", "seconds"), 1),
    }
    written = io.StringIO()
    show_summary(PlainConsole(file=written, width=400), summary, HOSTILE)
    assert is_harmless(written.getvalue())
    assert written.getvalue().count(SHOWN) == 5


def test_where_nobody_reads_a_complaint_is_no_further_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        complain("something")
        with pytest.raises(OSError, match="No space left"):  # what is still in the buffer
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_everything_is_printed_by_two_modules() -> None:
    """Any other way to the terminal would have to think of this too."""
    elsewhere = []
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in ("print", "Console"):
                elsewhere.append(f"{file.relative_to(SOURCES)}:{called.lineno}")
    assert elsewhere == []


def end_of_show(finished: Run, stdout: int) -> tuple[int, str]:
    command = [sys.executable, "-m", "pdqat", "show", str(finished.path)]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def test_a_closed_pipe_ends_quietly(finished_by_hand: Run) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    assert end_of_show(finished_by_hand, writing) == (141, "")
    os.close(writing)


def test_a_full_disk_behind_the_output_is_said(finished_by_hand: Run) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    assert end_of_show(finished_by_hand, full) == (2, "pdqat: [Errno 28] No space left on device\n")
    os.close(full)


@pytest.fixture(scope="module")
def finished_by_hand(tmp_path_factory: pytest.TempPathFactory) -> Run:
    from finished_run import finished_run

    return finished_run(tmp_path_factory.mktemp("by-hand") / "run")
