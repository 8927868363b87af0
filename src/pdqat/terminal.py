"""How things look in a terminal: tables, numbers, and what moves while work goes on."""

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from pdqat.printing import printable

UNLIMITED = 1000
"""Columns in which any table fits."""
TEXT_WIDTH = 100
"""Columns of a table that becomes text, if it does not need more."""
NAME = 24
"""Columns that names of layers have at least."""


class PlainConsole(Console):
    """Shows every text as it is: nothing in it is taken for markup, an emoji or a command to the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """What rich makes of every text, in tables too."""
        return super().render_str(printable(text, self.encoding), **options)

    def on_broken_pipe(self) -> None:
        """Leave it to the command line how to end when nobody reads on."""
        raise BrokenPipeError


class LiveDisplay:
    """Something that moves at the bottom of the terminal while a block runs; nothing where there is no terminal."""

    def __init__(self, console: PlainConsole, shown: Progress) -> None:
        self._console = console
        self._live = Live(shown, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


Tell = Callable[[int, int], None]
"""Is told how much is done, and of how much."""


def not_told(done: int, total: int) -> None:
    """Nobody waits for it."""


@contextmanager
def counting(about: str, shown: bool = True) -> Iterator[Tell]:
    """A bar on the terminal over things that take about as long each, with the time left; nothing where there is none.

    Args:
        about: what is done.
        shown: False for no bar at all.
    """
    console = PlainConsole()
    if not shown or not console.is_terminal:
        yield not_told
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(about, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def new_table(title: str = "") -> Table:
    """In the style that all tables have."""
    return Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def print_whole(console: PlainConsole, table: Table) -> None:
    """Without a word cut: folded into the columns that there are, and as wide as it is where nothing limits them."""
    _print_table(console, table, is_limited(console))


def _print_table(console: PlainConsole, table: Table, limited: bool) -> None:
    if limited:
        for part in fitting(table, console.width):
            console.print(part)
        return
    usual = console.width
    console.width = max(usual, PlainConsole(width=UNLIMITED).measure(table).maximum)
    console.print(table)
    console.width = usual


def is_limited(console: PlainConsole) -> bool:
    """Whether somebody reads in so many columns: in a terminal, or where COLUMNS says so."""
    return console.is_terminal or "COLUMNS" in os.environ


def fitting(table: Table, width: int) -> list[Table]:
    """A table that needs no more columns than `width`, or several, each with its first column.

    What has spaces is folded there, and long names in the first column anywhere; numbers stay in one piece.
    """
    measure = PlainConsole(width=UNLIMITED).measure
    if measure(table).maximum <= width:
        return [table]
    texts = [[measure(text) for text in (column.header, *column.cells)] for column in table.columns]
    least = [max(text.minimum for text in column) for column in texts]
    least[0] = min(least[0], NAME)
    parts: list[list[int]] = [[0]]
    for index in range(1, len(least)):
        if len(parts[-1]) > 1 and _width([least[other] for other in (*parts[-1], index)]) > width:
            parts.append([0])
        parts[-1].append(index)
    tables = []
    for part in parts:
        fitted = new_table()
        fitted.title = table.title if part is parts[0] else None
        widths = _shared(
            width,
            [least[index] for index in part],
            [max(text.maximum for text in texts[index]) for index in part],
        )
        for index, given in zip(part, widths, strict=True):
            old = table.columns[index]
            fitted.add_column(old.header, justify=old.justify, overflow="fold", width=given)
        for row in zip(*(table.columns[index].cells for index in part), strict=True):
            fitted.add_row(*row)
        tables.append(fitted)
    return tables


def _shared(width: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    """What each column gets of a width: the least that it needs, and an even share of the rest up to its most."""
    given, spare = list(least), max(0, width - _width(least))
    by_want = sorted(range(len(least)), key=lambda column: most[column] - least[column])
    for done, column in enumerate(by_want):
        more = min(most[column] - least[column], spare // (len(by_want) - done))
        given[column] += more
        spare -= more
    return given


def _width(columns: Sequence[int]) -> int:
    """Of a table with columns of these widths and what is between them."""
    return sum(columns) + 2 * len(columns)


def as_text(parts: Iterable[RenderableType]) -> str:
    """Tables and lines as plain text, for what print() shows."""
    written, reader = io.StringIO(), PlainConsole()
    limited = is_limited(reader)
    width = reader.width if limited else TEXT_WIDTH
    console = PlainConsole(file=written, width=width, color_system=None)
    for part in parts:
        if isinstance(part, Table):
            _print_table(console, part, limited)
        else:
            console.print(part)
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
