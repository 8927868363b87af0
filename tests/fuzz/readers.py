"""All readers of files that may be damaged or a stranger's, by name."""

from pathlib import Path
from typing import cast

from damaged import Reader
from fuzz import of_checkpoints, of_data, of_graphs, of_runs

KINDS = (of_runs, of_checkpoints, of_data, of_graphs)
NAMES = tuple(name for kind in KINDS for name in kind.NAMES)


def reader(name: str, folder: Path) -> Reader:
    """The reader of that name, which may write into the folder."""
    (found,) = (kind.readers(folder)[name] for kind in KINDS if name in kind.NAMES)
    return cast(Reader, found)  # modules are untyped in a loop
