"""A C folder on the emulated core beside an 8-bit and a float32 one of the same network."""

import copy
import tempfile
from pathlib import Path
from typing import Any

from pdqat.deployment.deployable import Deployable
from pdqat.deployment.following.calls import inputs_of
from pdqat.deployment.following.follow import follow
from pdqat.deployment.formats import FORMATS
from pdqat.deployment.formats.c_folder import c_model, check_program, write_folder
from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.formats.c_program import Program
from pdqat.deployment.integer.layers import in_full_precision
from pdqat.deployment.microcontroller.measurement import (
    CoreMeasurement,
    check_folder,
    measure_on_core,
    measure_program,
    show_measured,
)
from pdqat.deployment.microcontroller.toolchain import missing
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.transfer import with_plan
from pdqat.precision import MAX_BITS, BitPlan, Precision

EIGHT_BITS, FLOAT32 = "8 bits", "float32"


def measure_beside(folder: Path, net: Network, example: Any) -> tuple[dict[str, CoreMeasurement], str]:
    """Measurements by name, and the table that an export ends with; without the tools a sentence on what to install."""
    reason = missing()
    if reason is not None:
        return {}, f"flash, RAM and instructions are not measured: {reason}"
    measured, notes = {folder.name: measure_on_core(folder)}, []
    with tempfile.TemporaryDirectory() as scratch:
        for name, write in ((EIGHT_BITS, write_eight_bits), (FLOAT32, write_float32)):
            other = Path(scratch) / name
            try:
                write(net, example, other)
                measured[name] = measure_on_core(other)
            except InputError as error:
                notes.append(f"{name} is left out: {error}")
    return measured, "\n".join([show_measured(measured), *notes])


def measure_exported(folder: Path, net: Network, example: Any) -> CoreMeasurement:
    """A folder from anywhere, once its program is known to be the network's; no other code of the folder is run."""
    check_folder(folder)
    check_program(c_model(Deployable.of(net, None, example)), folder)
    return measure_program(folder)


def write_eight_bits(net: Network, example: Any, folder: Path) -> None:
    """The network with 8 bits in all layers that its plan quantises, as a C folder."""
    plan = net.only_plan("be compared with 8 bits")
    eight = BitPlan("eight", dict.fromkeys(plan.precisions, Precision(MAX_BITS, MAX_BITS)))
    model = Deployable.of(with_plan(net, eight), None, example)
    FORMATS["c"].write(model, folder, False, model.samples(model.example))


def write_float32(net: Network, example: Any, folder: Path) -> None:
    """The network's full-precision view as a C folder."""
    inputs = inputs_of(net, example)
    followed = follow(copy.deepcopy(net).float().cpu().eval(), inputs)
    plain, read = in_full_precision(followed.module), tuple(followed.read(inputs).values())
    write_folder(Model(Program(plain, read)), read[0], folder)
