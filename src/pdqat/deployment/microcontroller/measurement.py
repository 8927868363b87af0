"""What a C folder takes of a microcontroller: flash, RAM, and instructions on the emulated core."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pdqat.deployment.microcontroller.toolchain import (
    board_file,
    check_installed,
    compile_alone,
    compile_program,
    emulate,
    section_sizes,
)
from pdqat.errors import InputError
from pdqat.terminal import as_text, new_table

OK = "ok"
"""The last line of a self-test that passes."""


@dataclass(frozen=True)
class CoreMeasurement:
    """One folder on an Arm Cortex-M3, in bytes, and an image in operations."""

    weights: int
    """Flash: constants, that is, packed weights and roundings."""
    code: int
    """Flash: instructions, with all that they call of the compiler's libraries."""
    arena: int
    """RAM: static memory."""
    stack: int
    """RAM: the most that a run used of the stack, or 64. Nothing recurses, so all runs use about as much."""
    macs: int | None
    """Multiply-accumulates of an image; None if model.h does not say."""
    instructions: int
    """Of an image, to the next 5: a number that is the same on every host."""


def measure_on_core(folder: Path) -> CoreMeasurement:
    """Compile a C folder for the core, run its self-test there, and measure it.

    Raises:
        InputError: a tool or a file is missing, or the self-test does not pass.
    """
    check_folder(folder)
    check_installed()
    with tempfile.TemporaryDirectory() as scratch:
        check_on_core(folder, Path(scratch))
    return measure_program(folder)


def measure_program(folder: Path) -> CoreMeasurement:
    """Measure the program of a C folder on the core. Of the folder model.c and model.h are read, and nothing else."""
    check_installed()
    with tempfile.TemporaryDirectory() as scratch:
        alone, measured = Path(scratch) / "alone.elf", Path(scratch) / "measure.elf"
        compile_alone(folder / "model.c", alone)
        sections = section_sizes(alone)
        compile_program([folder / "model.c", board_file("measure.c")], folder, measured)
        counted = _numbers(emulate(measured))
    return CoreMeasurement(
        weights=sections.get(".rodata", 0),
        code=sections.get(".text", 0) + sections.get(".ARM.exidx", 0) + sections.get(".data", 0),
        arena=sections.get(".data", 0) + sections.get(".bss", 0),
        stack=counted["stack"],
        macs=_defined(folder / "model.h", "MODEL_MACS"),
        instructions=counted["instructions"],
    )


def check_folder(folder: Path) -> None:
    """Refuse what is no C folder."""
    absent = [name for name in ("model.c", "model.h", "selftest.c", "golden.h") if not (folder / name).is_file()]
    if absent:
        raise InputError(f"{folder} is no folder of `pdqat export --format c`: it has no {absent[0]}")


def check_on_core(folder: Path, scratch: Path) -> None:
    """Run a folder's self-test on the emulated core, compiled into a scratch folder."""
    program = scratch / "selftest.elf"
    compile_program([folder / "model.c", folder / "selftest.c"], folder, program, ["-DMODEL_OBSERVED"])
    told = emulate(program).split("\n")
    if OK not in told:
        raise InputError(f"the self-test of {folder} does not pass on the emulated Arm core: {told[0]}")


def show_measured(measured: Mapping[str, CoreMeasurement]) -> str:
    """A table, one row for each folder."""
    table = new_table("on an emulated Arm Cortex-M3: bytes, and operations an image")
    table.add_column("", justify="left", no_wrap=True)
    headings = ("flash: weights", "flash: code", "RAM: arena", "RAM: stack", "multiply-accumulates", "instructions")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, of in measured.items():
        numbers = (of.weights, of.code, of.arena, of.stack, of.macs, of.instructions)
        table.add_row(name, *("-" if number is None else f"{number:,}" for number in numbers))
    return as_text([table])


def _numbers(printed: str) -> dict[str, int]:
    rows = [line.split() for line in printed.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def _defined(header: Path, name: str) -> int | None:
    found = re.search(rf"^#define {name} (\d+)", header.read_text(encoding="utf-8"), re.MULTILINE)
    return None if found is None else int(found.group(1))
