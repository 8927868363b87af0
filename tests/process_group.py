"""Several processes of one group on this machine, as torchrun starts them, for functions that check things in them.

Starting a process takes seconds, so a test file starts one group for all that it checks.
"""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.multiprocessing.spawn import spawn

Check = Callable[[Path], Any]
"""Is called in every process with the folder of its test; returns what the test compares, as torch can save it."""


def run_in(processes: int, checks: list[Check], folder: Path) -> dict[str, list[Any]]:
    """What each check returned in every process, by its name; a list with its error where it raised one."""
    spawn(_run, (processes, checks, str(folder)), processes)  # type: ignore[no-untyped-call]
    by_rank = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(processes)]
    return {check.__name__: [results[check.__name__] for results in by_rank] for check in checks}


def _run(rank: int, processes: int, checks: list[Check], folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=processes)
    results: dict[str, Any] = {}
    for check in checks:
        own = Path(folder) / check.__name__
        own.mkdir(exist_ok=True)
        try:
            results[check.__name__] = check(own)
        except Exception:
            print(f"process {rank}, {check.__name__}:", traceback.format_exc(), file=sys.stderr)
            raise
        torch.distributed.barrier()
    torch.save(results, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()
