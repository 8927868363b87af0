"""Golden samples: inputs, the codes of every layer and the scores that a C program has to make of them."""

import numpy as np
from torch import Tensor

from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.formats.c_reference import Ordered
from pdqat.deployment.formats.c_tensors import REAL
from pdqat.deployment.formats.c_text import rows, table, value_of

SAMPLES = 3
MOST_CODES = 1 << 19
"""Of all samples: of a large network there are fewer."""
HEADER = """\
/* Samples, the codes of every layer in the order of PyTorch, as numbers above the lowest code, and the scores. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "model.h"

#define GOLDEN_SAMPLES {samples}

static const char *const golden_names[{layers}] = {{
{names}
}};
{lows}
{starts}
{inputs}
{codes}
{scores}

#endif
"""


def golden(model: Model, inputs: Tensor) -> str:
    """golden.h, of the first of these inputs."""
    program = model.program
    sizes = [layer.size for layer in model.layers]
    inputs = inputs[: max(1, min(SAMPLES, MOST_CODES // max(sum(sizes), 1)))].float()
    reference = Ordered(program)
    scores = reference.scores(inputs)
    codes = [reference.codes[layer.operation].reshape(len(inputs), -1).numpy() - layer.low for layer in model.layers]
    given = inputs if program.input_codes is None else program.input_codes[1](inputs)
    kind = "float" if program.input.kind == REAL else "int32_t"
    names = [f'"{layer.name}"' for layer in model.layers]
    return HEADER.format(
        samples=len(inputs),
        layers=max(len(names), 1),
        names=rows(names or ['""']),
        lows=table("int32_t", "golden_lows", [layer.low for layer in model.layers] or [0]),
        starts=table("int32_t", "golden_starts", np.cumsum([0, *sizes])),
        inputs=_by_sample("model_input_t", "golden_inputs", kind, given.reshape(len(inputs), -1).numpy()),
        codes=_by_sample("uint8_t", "golden_codes", "int32_t", np.concatenate(codes, 1) if codes else np.zeros((1, 1))),
        scores=_by_sample(
            "model_score_t", "golden_scores", "float" if scores.dtype == np.float32 else "int32_t", scores
        ),
    )


def _by_sample(kind: str, name: str, literals: str, numbers: np.ndarray) -> str:
    body = "\n".join(f"    {{\n{rows(value_of(literals, number) for number in sample)}\n    }}," for sample in numbers)
    return f"static const {kind} {name}[{len(numbers)}][{numbers.shape[1]}] = {{\n{body}\n}};"
