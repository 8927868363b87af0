"""Figures as files: PNG and SVG, the same bytes each time."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from pdqat.disk import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f5fa8", "#d1702a", "#9a9a9a"


def save(figure: "Figure", path: Path) -> list[Path]:
    """Write the figure as `path` with each ending; returns the files."""
    import matplotlib

    files = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    with matplotlib.rc_context({"svg.hashsalt": "pdqat"}):
        for file in files:
            drawn = io.BytesIO()
            metadata = {"Date": None} if file.suffix == ".svg" else None
            figure.savefig(drawn, format=file.suffix[1:], dpi=150, metadata=metadata)
            write_atomically(file, drawn.getvalue())
    return files
