"""`torchrun -m pdqat` on this machine."""

import os
import subprocess
import sys
from pathlib import Path


def torchrun(folder: Path, *arguments: str, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    """The command in two processes of this machine."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*start, "--max-restarts", str(restarts), "-m", "pdqat", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
