"""A network as a folder of C: the model, golden samples, a self-test that compares them, and what to know of it."""

import re
from pathlib import Path

from torch import Tensor

from pdqat.deployment.deployable import Deployable
from pdqat.deployment.formats.c_golden import golden
from pdqat.deployment.formats.c_kernels import source
from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.formats.c_place import FILES
from pdqat.deployment.formats.c_program import Program
from pdqat.deployment.formats.c_tensors import REAL
from pdqat.disk import write_atomically
from pdqat.errors import InputError

TABLE = re.compile(r"(static const (?:u?int\d+_t|float) \w+\[\d+\] = )\{([-+0-9a-fxLu., \n]*)\}")
"""A table of numbers, which can hold nothing else."""
README = """\
# A network in C

`model.c` and `model.h` are C99 with no other needs than `stdint.h`, `stddef.h` and `string.h`. They allocate nothing.
All memory is one static arena, so calls must not overlap.

```c
#include "model.h"

model_score_t scores[MODEL_OUTPUT_SIZE];
model_run(input, scores); /* MODEL_INPUT_SIZE numbers of one sample: channels, rows, columns */
```

`make check` compares every code of every layer and every score with those of `golden.h`.

| | |
|---|---:|
| weights and roundings | {constants:,} bytes |
| arena | {arena:,} bytes |
| what no placing of the tensors could be below | {least:,} bytes |
| products that are added up | {macs:,} |

{input}
{score}

{real}
"""
IN_INTEGERS = "Everything is computed in integers."
IN_REAL = """\
## In real numbers

These steps are computed in float32, since the network has no codes there: the plan leaves their layers in full
precision, or nothing that reads them is quantised.

{steps}

Sums have one order: a convolution's starts with the bias, then come rows of the window, columns, channels; a mean adds
up rows, then columns, and is divided at the end. Compilers that join a product and a sum into one operation give other
last digits: say `-std=c99` or `-ffp-contract=off`, and never `-ffast-math`."""


def c_model(model: Deployable) -> Model:
    """The C of a network's integer reference."""
    return Model(Program(model.frozen.module, model.read_example))


def write_folder(model: Model, inputs: Tensor, folder: Path) -> None:
    """All files, into a new folder.

    inputs      samples, of which a few become golden
    """
    texts = {
        "model.h": model.header(),
        "model.c": model.text(),
        "golden.h": golden(model, inputs),
        "README.md": _readme(model),
    }
    folder.mkdir()
    for name in FILES:
        write_atomically(folder / name, (texts[name] if name in texts else source(name)).encode())


def check_program(model: Model, folder: Path) -> None:
    """Refuse a folder whose program is not the model's: only numbers in tables may be others.

    So what is compiled and run is known, whoever the folder is from.
    """
    for name, own in (("model.h", model.header()), ("model.c", model.text())):
        try:
            text = (folder / name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{folder / name} can't be read: it is no C that pdqat wrote") from error
        if without_numbers(text) != without_numbers(own):
            raise InputError(
                f"{folder / name} was not exported from this network under this plan, or was changed: it is another "
                "program than the one that is written for it"
            )


def without_numbers(text: str) -> list[str]:
    """A program, and how many numbers each of its tables has."""
    counts: list[str] = []

    def emptied(match: re.Match[str]) -> str:
        counts.append(str(match[2].count(",")))
        return f"{match[1]}{{}}"

    return [TABLE.sub(emptied, text), *counts]


def _readme(model: Model) -> str:
    footprint, program = model.footprint, model.program
    return README.format(
        constants=footprint.constants,
        arena=footprint.arena,
        least=footprint.least_arena,
        macs=footprint.macs,
        input="An input is the image's numbers, as the PyTorch model takes them."
        if program.input.kind == REAL
        else "An input is codes, in bytes; `model.h` says what they are codes of.",
        score="A score is what the PyTorch model gives."
        if program.last_product is None
        else "A score is a whole number; times `MODEL_SCORE_UNIT` it is what the PyTorch model gives.",
        real=IN_REAL.format(steps="\n".join(f"- {step}" for step in footprint.real)) if footprint.real else IN_INTEGERS,
    )
