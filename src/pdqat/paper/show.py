"""Print a suite's tables, and write them with the figures and the numbers behind them."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.experiments.protocol import Protocol
from pdqat.experiments.results import Entry, entries, written_entries
from pdqat.experiments.tables import Grid
from pdqat.paper.suites import SUITES, cells
from pdqat.pictures import save
from pdqat.terminal import PlainConsole, print_whole


def show(suite: str, protocol: Protocol, folder: Path, console: PlainConsole) -> None:
    """Show the cells that are finished, of all seeds that were begun, and say which are missing."""
    try:
        from pdqat.paper.artefacts import ARTEFACTS
    except ImportError as error:
        raise InputError(f"pdqat paper show needs {error.name}: pip install 'pdqat[paper]'") from error
    seeds = seeds_to_show(suite, protocol, folder)
    all_cells = cells(suite, seeds)
    shown = entries_to_show(suite, protocol, folder)
    finished = {entry["cell"] for entry in shown}
    missing = [cell.name for cell in all_cells if cell.name not in finished]
    again = f"pdqat paper run {suite} --protocol {protocol.name} --seeds {seeds} --folder {folder}"
    if not shown:
        raise InputError(f"no cell of {suite} is finished in {folder}; train them with: {again}")
    artefact = ARTEFACTS[suite](shown)
    tables = titled(artefact.tables, shown)
    files = as_files(suite, tables, shown)
    for name, content in files.items():
        write_atomically(folder / name, content)
    drawn = [file for name, figure in artefact.figures.items() for file in save(figure, folder / f"{suite}{name}")]
    written = ", ".join([*files, *(file.name for file in drawn)])
    for table in tables:
        print_whole(console, table.rich())
    hours, done = sum(entry["seconds"] for entry in shown) / 3600, len(all_cells) - len(missing)
    console.print(
        f"{done} of {len(all_cells)} cells finished, {hours:.1f} hours of training; protocol "
        f"{protocol.name}: {_made_with(shown)}; written to {folder}: {written}",
    )
    if missing:
        console.print(f"missing: {', '.join(missing)}; train them with: {again}")


def entries_to_show(suite: str, protocol: Protocol, folder: Path) -> list[Entry]:
    """The entries of the cells that are finished, and of those that other programs have trained."""
    own = entries(cells(suite, seeds_to_show(suite, protocol, folder)), protocol, folder)
    return [*own, *written_entries(suite, protocol, folder)]


def titled(tables: Sequence[Grid], shown: Sequence[Entry]) -> list[Grid]:
    """The tables with titles that say what their numbers were made with: ours, and the paper's where they have some."""
    ours, theirs = f"Ours: {_made_with(shown)}", "; the paper's: width 5, 100 epochs"
    return [
        dataclasses.replace(
            table, title=f"{table.title}. {ours}{theirs if any('paper' in text for text in table.headings) else ''}"
        )
        for table in tables
    ]


def as_files(suite: str, tables: Sequence[Grid], shown: Sequence[Entry]) -> dict[str, bytes]:
    """The numbers in JSON and the tables in Markdown and LaTeX, by the names of their files."""
    return {
        f"{suite}.json": json.dumps(shown, indent=1).encode() + b"\n",
        f"{suite}.md": "\n".join(table.markdown() for table in tables).encode(),
        f"{suite}.tex": "\n".join(table.latex() for table in tables).encode(),
    }


def _made_with(shown: Sequence[Entry]) -> str:
    """The width, epochs and training images of these cells, in words."""
    widths, epochs = (" or ".join(map(str, sorted({entry[key] for entry in shown}))) for key in ("width", "epochs"))
    counts = sorted({entry["train_images"] for entry in shown}, key=lambda count: count or 0)
    images = " or ".join("all" if count is None else f"{count:,}" for count in counts)
    return f"width {widths}, {epochs} epochs, {images} training images"


def seeds_to_show(suite: str, protocol: Protocol, folder: Path) -> int:
    """How many seeds to show: up to the highest that was begun, and no fewer than the protocol's."""
    endings = {path.name.rpartition("-seed")[2] for path in (folder / "cells").glob("*-seed*")}
    begun = [
        int(seed)
        for seed in endings
        if seed.isdigit() and any(cell.run(folder).path.exists() for cell in SUITES[suite](int(seed)))
    ]
    return max([protocol.seeds, *(seed + 1 for seed in begun)])
