"""What a process runs on, may use and sets up once: processor, cores, compiler, memory."""

import ctypes
import os
import platform
from pathlib import Path

import torch

from pdqat.errors import InputError

COMPILED = Path("~/.cache/pdqat/compiled")
"""Keeps compiled code for later runs, unless TORCHINDUCTOR_CACHE_DIR names another folder."""


def cores() -> int:
    """That this process may use: fewer than there are, below `taskset` or in a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The name of the processor and the vector instructions that torch uses on it: trainings depend on both.

    For instance "AMD EPYC (family 26, model 2), AVX512". Clouds give many generations one name, which have caches of
    other sizes and so sums in another order; their numbers tell them apart.
    """
    about = Path("/proc/cpuinfo")
    lines = about.read_text(errors="replace").splitlines() if about.exists() else []
    pairs = (line.partition(":") for line in reversed(lines))
    first = {key.strip(): value.strip() for key, _, value in pairs}  # reversed: of many cores the first one's are kept
    numbers = ", ".join(f"{key.removeprefix('cpu ')} {first[key]}" for key in ("cpu family", "model") if first.get(key))
    name = first.get("model name") or platform.processor() or platform.machine()
    return f"{name}{f' ({numbers})' if numbers else ''}, {torch.backends.cpu.get_cpu_capability()}"


def free_memory() -> int | None:
    """In bytes, what could be used without swapping; None where the system does not say."""
    about = Path("/proc/meminfo")
    lines = about.read_text(errors="replace").splitlines() if about.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)


def check_compiler() -> None:
    """Compile a line of code, or say in one sentence why that can't be done here."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(COMPILED.expanduser()))
    try:
        torch.compile(_double, fullgraph=True)(torch.ones(8))
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            f"torch.compile does not work here ({reason}); install a C++ compiler such as g++, or train without "
            "--compile; with --compile-fallback that happens by itself"
        ) from error


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return 2 * tensor


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next step, where it can be told so (glibc).

    By default it hands large blocks back to the system after every step, which gives them out again page by page,
    cleared.
    """
    trim_threshold, mmap_threshold = -1, -3  # their numbers in malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(trim_threshold, 2**31 - 1)
    if not mallopt(mmap_threshold, 2**30):
        mallopt(mmap_threshold, 2**25)  # the most that older versions take
