"""The page: one HTML file with the document and all that draws it inside.

Charts are drawn by Chart.js, whose one file is inlined from `page/vendor` as its npm package has it (MIT). It is
vendored, since every training writes a report: one that needs nothing else installed, and 210 KB rather than the
megabytes of larger libraries. The network and the bars in tables are plain elements, which need no library.

Scripts make elements and set their text, never HTML, so names stay what they are. A policy in the page forbids any
connection.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

STYLES = ("colours", "layout", "parts", "tables", "sections", "screens")
PARTS = ("elements", "numbers", "tables", "charts", "network")
SECTIONS = (
    *("scores", "history", "constraints", "ranking", "layers", "frontier", "noise"),
    *("size", "choices", "verification", "provenance", "compare"),
)
"""All in the order in which they build on each other."""
_PAGE = files("pdqat.reporting") / "page"


def render(document: Mapping[str, Any]) -> str:
    """The page of a document."""
    parts = {
        "DATA": embedded(document),
        "STYLE": "\n".join(_text("styles", f"{name}.css") for name in STYLES),
        "LIBRARY": _text("vendor", "chart.umd.min.js"),
        "SCRIPT": "\n".join(
            [
                *(_text("scripts", f"{name}.js") for name in PARTS),
                *(_text("scripts", "sections", f"{name}.js") for name in SECTIONS),
                _text("scripts", "main.js"),
            ]
        ),
    }
    before, *pieces = _text("template.html").split("{{")
    page = [before]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        page += [parts[name], rest]
    return "".join(page)


def embedded(document: Mapping[str, Any]) -> str:
    """JSON that no text in it can end: what HTML reads in a script is escaped as JSON allows.

    >>> embedded({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(*path: str) -> str:
    return _PAGE.joinpath(*path).read_text(encoding="utf-8")
