"""Run tests as on processors with other vector instructions, with one and with two threads.

    python tests/processors.py [--quick] [arguments of pytest]

torch and oneDNN are told to use the instructions of an older processor: none, AVX2, and AVX512 where it is there.
"""

import argparse
import os
import subprocess
import sys
import time

import torch

LEVELS = {"default": "SSE41", "avx2": "AVX2", "avx512": "AVX512_CORE"}
"""torch's capability to the instructions of oneDNN that match it."""


def levels_here() -> list[str]:
    """Those that this processor has."""
    names = list(LEVELS)
    return names[: names.index(torch.backends.cpu.get_cpu_capability().lower()) + 1]


def passes(level: str, threads: int, arguments: list[str]) -> bool:
    """Whether the tests pass at a level; says so."""
    environment = {
        **os.environ,
        "ATEN_CPU_CAPABILITY": level,
        "ONEDNN_MAX_CPU_ISA": LEVELS[level],
        "PDQAT_TEST_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # several processes with several threads each share the cores
    }
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", *arguments]
    passed = subprocess.run(command, env=environment, check=False).returncode == 0
    outcome = "passed" if passed else "FAILED"
    print(
        f"{level}, {threads} thread{'s' * (threads > 1)}: {outcome} in {time.monotonic() - started:.0f} s", flush=True
    )
    return passed


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only the lowest level, if this processor has a higher one, with two threads",
    )
    options, arguments = parser.parse_known_args()
    levels = levels_here()
    settings = [(level, threads) for level in levels for threads in (1, 2)]
    if options.quick:
        settings = [(level, 2) for level in levels[:-1][:1]]
    outcomes = [passes(level, threads, arguments) for level, threads in settings]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
