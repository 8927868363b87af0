"""Print a suite's tables, and write them with the figures and the numbers behind them."""

import dataclasses
import json
from pathlib import Path

from rich.console import Console

from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.paper.protocols import Protocol
from pdqat.paper.results import Entry, entries
from pdqat.paper.suites import SUITES, cells
from pdqat.paper.tables import Grid
from pdqat.pictures import save
from pdqat.terminal import print_whole


def show(suite: str, protocol: Protocol, folder: Path, console: Console) -> None:
    """Of the cells that are finished, of all seeds that were begun; says which are not."""
    try:
        from pdqat.paper.artefacts import ARTEFACTS
    except ImportError as error:
        raise InputError(f"pdqat paper show needs {error.name}: pip install 'pdqat[paper]'") from error
    seeds = seeds_to_show(suite, protocol, folder)
    chosen = cells(suite, seeds)
    found = entries(chosen, protocol, folder)
    finished = {entry["cell"] for entry in found}
    missing = [cell.name for cell in chosen if cell.name not in finished]
    again = f"pdqat paper run {suite} --protocol {protocol.name} --seeds {seeds} --folder {folder}"
    if not found:
        raise InputError(f"no cell of {suite} is finished in {folder}; train them with: {again}")
    artefact = ARTEFACTS[suite](found)
    ours = _trained(found)
    tables = [dataclasses.replace(each, title=f"{each.title}. {_whose(each, ours)}") for each in artefact.tables]
    files = {f"{suite}.json": json.dumps(found, indent=1).encode() + b"\n"}
    files[f"{suite}.md"] = "\n".join(each.markdown() for each in tables).encode()
    files[f"{suite}.tex"] = "\n".join(each.latex() for each in tables).encode()
    for name, content in files.items():
        write_atomically(folder / name, content)
    drawn = [file for name, figure in artefact.figures.items() for file in save(figure, folder / f"{suite}{name}")]
    written = ", ".join([*files, *(file.name for file in drawn)])
    for table in tables:
        print_whole(console, table.rich())
    seconds = sum(entry["seconds"] for entry in found)
    console.print(
        f"{len(found)} of {len(chosen)} cells finished, {seconds / 3600:.1f} hours of training; protocol "
        f"{protocol.name}: {ours}; written to {folder}: {written}",
        highlight=False,
        markup=False,
    )
    if missing:
        console.print(f"missing: {', '.join(missing)}; train them with: {again}", highlight=False, markup=False)


def _trained(found: list[Entry]) -> str:
    """With what these cells were made."""
    widths, epochs = (" or ".join(map(str, sorted({entry[key] for entry in found}))) for key in ("width", "epochs"))
    numbers = {entry["train_images"] for entry in found}
    images = " or ".join("all" if each is None else f"{each:,}" for each in sorted(numbers, key=lambda each: each or 0))
    return f"width {widths}, {epochs} epochs, {images} training images"


def _whose(table: Grid, ours: str) -> str:
    """Ours and the paper's stand side by side only with what each was made with."""
    theirs = "; the paper's: width 5, 100 epochs" if any("paper" in text for text in table.headings) else ""
    return f"Ours: {ours}{theirs}"


def seeds_to_show(suite: str, protocol: Protocol, folder: Path) -> int:
    """As many as reach the highest seed that was begun."""
    found = {path.name.rpartition("-seed")[2] for path in (folder / "cells").glob("*-seed*")}
    begun = [
        int(seed)
        for seed in found
        if seed.isdigit() and any(cell.run(folder).path.exists() for cell in SUITES[suite](int(seed)))
    ]
    return max([protocol.seeds, *(seed + 1 for seed in begun)])
