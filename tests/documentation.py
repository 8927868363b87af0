"""The pages of the documentation and the code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_in(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)


def pages_with(language: str) -> list[str]:
    return [page for page in PAGES if blocks_in(page, language)]


def prose_of(page: str) -> str:
    """Without fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
