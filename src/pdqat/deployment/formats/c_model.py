"""A C program as text: model.h and model.c."""

from pdqat.deployment.footprint import Footprint
from pdqat.deployment.formats.c_arena import Buffer, least_words, place
from pdqat.deployment.formats.c_functions import step_function
from pdqat.deployment.formats.c_kernels import kernels_for, source
from pdqat.deployment.formats.c_program import Program
from pdqat.deployment.formats.c_rows import IN_REALS
from pdqat.deployment.formats.c_steps import EACH_PIXEL, SUM_PIXELS, Step
from pdqat.deployment.formats.c_tensors import BYTES, PLANES, REAL, WORD, WORD_BYTES, Stored

HEADER = """\
/* A network that pdqat wrote as C. The arena is static: calls must not overlap. */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#define MODEL_INPUT_SIZE {input_size}
#define MODEL_OUTPUT_SIZE {output_size}
#define MODEL_ARENA_BYTES {arena} /* of RAM; no placing of the tensors could do with less than {least} */
#define MODEL_CONSTANT_BYTES {constants} /* of weights and roundings */
#define MODEL_MACS {macs}LL /* products that a run adds up */
#define MODEL_LAYERS {layers} /* that make codes */

{input}
{score}

/* One sample, in the order of PyTorch: channels, rows, columns. Gives back 0, or 1 where a pointer is null. */
int model_run(const model_input_t *input, model_score_t *scores);

#ifdef MODEL_OBSERVED
/* To be defined by who wants to see codes: called for every code of a layer, in the order of PyTorch. */
void model_observe(int layer, int index, int32_t code);
#endif

#endif
"""
PROGRAM = """\
/* A network that pdqat wrote as C99: first the kernels that it needs, then its layers, then model_run. */
#include "model.h"

#include <stddef.h>
#include <string.h>

{types}
/* All memory: the tensors, overlapped by lifetime, and what one pixel of a layer needs. */
static struct {{
    uint32_t tensors[{tensor_words}];
{scratch}
}} arena;

typedef char arena_has_the_promised_size[sizeof arena == MODEL_ARENA_BYTES ? 1 : -1];

{observe}
{kernels}
static void *input_data, *scores_data; /* the arguments of model_run */
{tensors}

{steps}

int model_run(const model_input_t *input_numbers, model_score_t *score_numbers)
{{
    if (input_numbers == NULL || score_numbers == NULL)
        return 1;
    input_data = (void *)(uintptr_t)input_numbers; /* it is only read */
    scores_data = score_numbers;
{calls}
    return 0;
}}
"""


def is_real(step: Step) -> bool:
    """Whether it reads or makes real numbers, or has some on the way."""
    stored = any(tensor.kind == REAL for tensor in (*step.reads, step.writes))
    return stored or step.kernel == "convolve_real" or any(row.kernel in IN_REALS for row in step.rows)


class Model:
    """The two files, and what is known of them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        groups, buffers = self._buffers()
        offsets, words = place(buffers)
        self._offsets = {tensor: offset for group, offset in zip(groups, offsets, strict=True) for tensor in group}
        self._tensor_words = max(words, 1)
        scratch = sum(size * count for _, _, size, count in self._scratch())
        least = max(least_words(buffers), 1)
        steps = program.steps
        self.footprint = Footprint(
            sum(step.bytes for step in steps),
            self._padded(WORD_BYTES * self._tensor_words + scratch),
            self._padded(WORD_BYTES * least + scratch),
            sum(step.macs for step in steps),
            ["; ".join(step.about) for step in steps if is_real(step)],
        )
        self.layers = program.layers()
        """Those that make codes, as they are numbered."""

    @staticmethod
    def _padded(size: int) -> int:
        return -(-size // WORD_BYTES) * WORD_BYTES

    def header(self) -> str:
        """model.h."""
        program, footprint = self.program, self.footprint
        return HEADER.format(
            input_size=program.input.size,
            output_size=program.output.size,
            arena=footprint.arena,
            least=footprint.least_arena,
            constants=footprint.constants,
            macs=footprint.macs,
            layers=len(self.layers),
            input=self._input_type(),
            score=self._score_type(),
        )

    def text(self) -> str:
        """model.c."""
        numbered = list(enumerate(self.program.steps))
        steps = "\n\n".join(step_function(step, number) for number, step in numbered)
        return PROGRAM.format(
            types=source("types.h"),
            tensor_words=self._tensor_words,
            scratch="\n".join(f"    {kind} {name}[{count}];" for kind, name, _, count in self._scratch()),
            observe=source("observe.c"),
            kernels=kernels_for(steps),
            tensors="\n".join(self._tensors()),
            steps=steps,
            calls="\n".join(f"    step{number}();" for number, _ in numbered),
        )

    def _input_type(self) -> str:
        given = self.program.input
        if given.kind == REAL:
            return "typedef float model_input_t;"
        assert self.program.input_codes is not None
        operation = self.program.input_codes[1]
        about = f"the whole number nearest to value * {operation.factor!r} / {operation.step!r}"
        kind = "int8_t" if given.low < 0 else "uint8_t"
        return (
            f"/* Codes of the network's input, {given.low} to {given.high}: {about}. */\ntypedef {kind} model_input_t;"
        )

    def _score_type(self) -> str:
        product = self.program.last_product
        if product is None:
            return "typedef float model_score_t;"
        unit = f"#define MODEL_SCORE_UNIT {product.unit!r} /* a score times this is the network's output */"
        return f"typedef int32_t model_score_t;\n{unit}"

    def _tensors(self) -> list[str]:
        tensors = {self.program.input: 0, self.program.output: 0, **self._offsets}
        return [tensor.definition(offset) for tensor, offset in tensors.items()]

    def _scratch(self) -> list[tuple[str, str, int, int]]:
        """Type, name, size and number of what one pixel needs."""
        steps = self.program.steps
        rows = max(tensor.channels for step in steps for tensor in (*step.reads, step.writes))
        pooled = [step.reads[0] for step in steps if step.kernel == SUM_PIXELS]
        added = [row.other for step in steps for row in step.rows if row.other is not None]
        are_read_first = any(other.kind not in (BYTES, REAL) for other in (*pooled, *added))
        has_rows = any(step.makes_rows or step.kernel == SUM_PIXELS for step in steps)
        in_planes = any(step.writes.kind == PLANES for step in steps)
        parts = [
            ("int32_t", "row", 4, (-(-rows // WORD) * WORD if in_planes else rows) * has_rows),
            ("int32_t", "other", 4, rows * are_read_first),
            ("uint32_t", "bits", 4, max(step.window_words for step in steps)),
            ("int16_t", "codes", 2, max(step.window_codes for step in steps)),
            ("uint8_t", "bytes", 1, max(step.window_bytes for step in steps)),
        ]
        return [part for part in parts if part[3]]

    def _buffers(self) -> tuple[list[list[Stored]], list[Buffer]]:
        """The tensors of the arena, with their lifetimes in steps.

        A step that works pixel by pixel writes where it reads for the last time, if what it writes is stored alike.
        """
        steps = self.program.steps
        first: dict[Stored, int] = {}
        last: dict[Stored, int] = {}
        shared: dict[Stored, list[Stored]] = {}
        for index, step in enumerate(steps):
            seen = [] if step.seen is None else [step.seen]
            shared |= {tensor: [tensor] for tensor in seen}
            for tensor in (step.writes, *seen):
                first.setdefault(tensor, index)
            for tensor in (step.writes, *step.reads, *seen):
                last[tensor] = index
        for index, step in enumerate(steps):
            if step.writes.outside or step.writes in shared:
                continue
            fitting = [tensor for tensor in self._at_hand(step) if last[tensor] == index and tensor in shared]
            alike = [
                tensor for tensor in fitting if (tensor.kind, tensor.words) == (step.writes.kind, step.writes.words)
            ]
            group = shared[alike[0]] if alike else []
            group.append(step.writes)
            shared[step.writes] = group
        groups = list({id(group): group for group in shared.values()}.values())
        return groups, [
            Buffer(group[0].words, min(first[one] for one in group), max(last[one] for one in group))
            for group in groups
        ]

    @staticmethod
    def _at_hand(step: Step) -> list[Stored]:
        """What a step reads pixel by pixel, always the one that it writes next."""
        others = [row.other for row in step.rows if row.other is not None]
        own = [step.reads[0]] if step.kernel == EACH_PIXEL else []
        return [tensor for tensor in (*own, *others) if step.kernel == EACH_PIXEL or tensor is not step.reads[0]]
