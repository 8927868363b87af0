"""The kernels in C: files of one function each, called as the file is. A program holds those that it calls."""

import re
from functools import cache
from importlib.resources import files

SOURCES = files("pdqat.deployment.formats") / "c_sources"


def source(name: str) -> str:
    """One of the files that are written as they are."""
    return (SOURCES / name).read_text()


@cache
def all_kernels() -> dict[str, str]:
    """Every kernel by its name."""
    return {file.name.removesuffix(".c"): file.read_text() for file in (SOURCES / "kernels").iterdir()}


def kernels_for(program: str) -> str:
    """All that a program calls, each behind those that it calls itself."""
    ordered: dict[str, str] = {}

    def add(text: str) -> None:
        for name in sorted(called_in(text) - ordered.keys()):
            body = all_kernels()[name]
            add(body.replace(f"{name}(", "(", 1))
            ordered.setdefault(name, body)

    add(program)
    return "\n".join(ordered.values())


def called_in(text: str) -> set[str]:
    """The kernels whose names stand in a text, but for its comments, which may name layers."""
    return set(re.findall(r"\b[a-z_0-9]+\b", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))) & all_kernels().keys()
