"""A plan as a file that people can read and change: TOML with a precision for every layer.

# 2.47 bits of 2.5 bits; predicted cost 0.0123, by dual
model = "preresnet20"
width = 1

[layers]
"stages.0.0.conv0" = "4"

The model may be left out, as in a plan written by hand; the names of layers then say what it fits.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from pdqat.disk import read_file, write_atomically
from pdqat.errors import InputError
from pdqat.precision import Precision
from pdqat.runs.folder import is_run
from pdqat.runs.forms import LARGEST_TOML, PlanForm, read_toml
from pdqat.runs.seal import Seal


@dataclass(frozen=True)
class PlanModel:
    """The network that a plan was made for."""

    model: str
    width: int

    def __str__(self) -> str:
        return f"{self.model} of width {self.width}"


def write_plan(path: Path, precisions: Mapping[str, Precision], about: str, model: PlanModel | None = None) -> None:
    """Write it whole or not at all."""
    content = {} if model is None else asdict(model)
    layers = {layer: str(precision) for layer, precision in precisions.items()}
    text = f"# {about}\n{tomli_w.dumps({**content, 'layers': layers})}".encode()
    if is_run(path.parent):
        Seal(path.parent).write(path, text)
    else:
        write_atomically(path, text)


def read_plan(path: Path) -> dict[str, Precision]:
    """The precision of every layer that the file names."""
    layers = _content(path)["layers"]
    try:
        return {layer: Precision.parse(precision) for layer, precision in layers.items()}
    except InputError as error:
        raise InputError(f"in the plan {path}: {error}") from error


def check_model(path: Path, model: PlanModel) -> None:
    """Refuse a plan that says that it is another model's."""
    content = _content(path)
    of: dict[str, Any] = asdict(model) | {key: content[key] for key in ("model", "width") if key in content}
    if of != asdict(model):
        raise InputError(f"the plan {path} is of {PlanModel(**of)}, but the model to train is {model}")


def _content(path: Path) -> dict[str, Any]:
    try:
        in_a_run = is_run(path.parent)
        text = Seal(path.parent).read(path) if in_a_run else read_file(path, LARGEST_TOML, streams=True)
        content = read_toml(text, path, "plan")
        form = msgspec.convert(content, PlanForm)
    except OSError as error:
        raise InputError(f"can't read the plan {path}: {error.strerror or error}") from error
    except (msgspec.ValidationError, OverflowError) as error:
        raise InputError(f"{path} is not a plan: {error}; {_FORM}") from error
    if not form.layers:
        raise InputError(f"{path} is not a plan: it names no layer; {_FORM}")
    return content


_FORM = "it must hold one table, [layers], with a precision for each, and may name its model and width"
