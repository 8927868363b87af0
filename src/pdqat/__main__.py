"""`python -m pdqat`, which torchrun starts too."""

import atexit
import os
import sys

from pdqat.cli import main


def leave(status: int) -> None:
    """End one of several processes without taking the interpreter apart.

    Torch leaves threads of its group running where gradients were shared. One that lets go of a tensor while the
    interpreter is taken apart would abort a process that has done all it had to.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    ended = main()
    if "torch" in sys.modules:
        from pdqat.distributed import is_launched

        if is_launched():
            leave(ended)
    raise SystemExit(ended)
