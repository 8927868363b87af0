"""How things look in a terminal: tables, numbers, and what moves while work goes on."""

import io
from collections.abc import Iterable
from typing import Self

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import Progress
from rich.table import Table

UNLIMITED = 1000
"""Columns in which any table fits."""
TEXT_WIDTH = 100
"""Columns of a table that becomes text, if it does not need more."""


class LiveDisplay:
    """Something that moves at the bottom of the terminal while a block runs; nothing where there is no terminal."""

    def __init__(self, console: Console, shown: Progress) -> None:
        self._console = console
        self._live = Live(shown, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def new_table(title: str = "") -> Table:
    """In the style that all tables have."""
    return Table(
        title=f"[bold]{title}[/bold]" if title else None,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def print_whole(console: Console, table: Table) -> None:
    """Without a word cut, also where the terminal is narrower than the table."""
    usual = console.width
    console.width = max(usual, Console(width=UNLIMITED).measure(table).maximum)
    console.print(table)
    console.width = usual


def as_text(parts: Iterable[RenderableType]) -> str:
    """Tables and lines as plain text, for what print() shows."""
    written = io.StringIO()
    console = Console(file=written, width=TEXT_WIDTH, color_system=None, highlight=False)
    for part in parts:
        if isinstance(part, Table):
            print_whole(console, part)
        else:
            console.print(part, markup=False)
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    return "\n".join(lines).strip("\n")


def percent(value: float) -> str:
    """An accuracy as people write it.

    >>> percent(0.97567)
    '97.57%'
    """
    return f"{100 * value:.2f}%"


def number(value: float, sign: str = "") -> str:
    """Four decimals, or two digits where these would show nothing.

    >>> number(0.25, "+"), number(0.00012)
    ('+0.2500', '1.2e-04')
    """
    return f"{value:{sign}.4f}" if value == 0 or abs(value) >= 0.0005 else f"{value:{sign}.1e}"
