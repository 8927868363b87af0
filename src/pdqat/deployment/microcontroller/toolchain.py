"""The cross compiler and the emulator, as Debian has them, and the board that both know."""

import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from pdqat.errors import InputError

COMPILER, SIZES, EMULATOR = "arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm"
INSTALL = "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
CORE = ("-mcpu=cortex-m3", "-mthumb")
FLAGS = ("-std=c99", "-O2", "-ffunction-sections", "-fdata-sections")
MACHINE = ("-M", "mps2-an385", "-cpu", "cortex-m3", "-nographic", "-monitor", "none", "-serial", "none")
COUNTED = ("-icount", "shift=3")
"""An instruction takes 8 ns of the emulated clock, whatever the host does."""
MOST_SECONDS = 600
"""After which a run on the emulated core is given up."""


def missing() -> str | None:
    """What is to be installed for the emulated core, in one sentence; None if nothing is."""
    absent = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]
    if absent:
        return f"the emulated Arm core needs {' and '.join(absent)}: {INSTALL}"
    found = subprocess.run([COMPILER, "-print-file-name=rdimon.specs"], capture_output=True, text=True, check=False)
    if not Path(found.stdout.strip()).is_absolute():
        return f"the emulated Arm core needs newlib for {COMPILER}: {INSTALL}"
    return None


def check_installed() -> None:
    """Refuse to go on without the tools."""
    reason = missing()
    if reason is not None:
        raise InputError(reason)


def board_file(name: str) -> str:
    """Where a file of the board's lies."""
    return str(files("pdqat.deployment.microcontroller") / "board" / name)


def compile_program(sources: Sequence[Path | str], folder: Path, program: Path, defines: Sequence[str] = ()) -> None:
    """A program for the board, of a folder's sources."""
    all_sources = [*map(str, sources), board_file("startup.c")]
    linked = ["--specs=rdimon.specs", "-nostartfiles", "-Wl,--gc-sections", "-T", board_file("linker.ld")]
    _run(
        [COMPILER, *CORE, *FLAGS, *defines, f"-I{folder}", *all_sources, *linked, "-o", str(program)],
        f"{folder} can't be compiled for the Arm core",
    )


def compile_alone(source: Path, program: Path) -> None:
    """model_run and all that it calls, and nothing else: what a product would link."""
    linked = ["--specs=nosys.specs", "-nostartfiles", "-Wl,--gc-sections", "-Wl,--entry=model_run"]
    linked += ["-T", board_file("linker.ld")]
    _run(
        [COMPILER, *CORE, *FLAGS, f"-I{source.parent}", str(source), *linked, "-o", str(program)],
        f"{source} can't be compiled for the Arm core",
    )


def section_sizes(program: Path) -> dict[str, int]:
    """Bytes by section."""
    lines = _run([SIZES, "-A", str(program)], f"{program} is no program").splitlines()
    rows = [line.split() for line in lines if line.startswith(".")]
    return {row[0]: int(row[1]) for row in rows}


def emulate(program: Path) -> str:
    """What a program prints on the emulated board; a program that does not end with 0 is an error."""
    semihosting = ("-semihosting-config", "enable=on,target=native")
    command = [EMULATOR, *MACHINE, *COUNTED, *semihosting, "-kernel", str(program)]
    return _run(command, f"{program.name} fails on the emulated Arm core")


def _run(command: Sequence[str], refusal: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=MOST_SECONDS
        )
    except FileNotFoundError as error:
        raise InputError(missing() or f"{command[0]} is missing") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{refusal}: it takes more than {MOST_SECONDS} s") from error
    if done.returncode != 0:
        told = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        saying = [line for line in told if "error" in line or "expected" in line]
        raise InputError(f"{refusal}: {next(iter(saying or told), f'code {done.returncode}')}")
    return done.stdout
