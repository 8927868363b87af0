"""A plan as a file that people can read and change: TOML with a precision for every layer.

# 2.47 bits of 2.5 bits; predicted cost 0.0123, by dual
[layers]
"stages.0.0.conv0" = "4"
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.precision import Precision


def write_plan(path: Path, precisions: Mapping[str, Precision], about: str) -> None:
    """Write it whole or not at all."""
    layers = {layer: str(precision) for layer, precision in precisions.items()}
    write_atomically(path, f"# {about}\n{tomli_w.dumps({'layers': layers})}".encode())


def read_plan(path: Path) -> dict[str, Precision]:
    """The precision of every layer that the file names."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"can't read the plan {path}: {error}") from error
    layers = content.get("layers")
    if set(content) != {"layers"} or not isinstance(layers, dict) or not layers:
        raise InputError(f"{path} is not a plan: it must hold one table, [layers], with a precision for each")
    try:
        return {layer: Precision.parse(precision) for layer, precision in layers.items()}
    except InputError as error:
        raise InputError(f"in the plan {path}: {error}") from error
