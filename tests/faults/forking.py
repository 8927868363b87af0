"""Commands in processes of their own that share one import of torch: a server that forks one for every command.

    with Forks() as forks:
        ended = forks.run(["show", "run"], folder, fault)

Each runs `pdqat.cli.main` as the program does, on files in place of a terminal, with a fault of `faults.injecting`.
"""

import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from faults.injecting import Fault, Moments
from pdqat import telemetry

POLL = 0.002
HEEDED = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """Negative for the signal that ended it."""
    output: str
    errors: str
    moments: int
    """Calls that touched the folder; 0 of a process that was killed."""
    seconds: float


class Forks:
    """The server, from outside."""

    def __enter__(self) -> Self:
        path = os.pathsep.join(sys.path)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "faults.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.kill()  # its own end would take seconds
        self._server.communicate()

    def run(self, arguments: Sequence[str], folder: Path, fault: Fault = Fault()) -> Ended:  # noqa: B008
        """A command in a folder, to its end."""
        request = {"arguments": list(arguments), "folder": str(folder), "fault": dataclasses.asdict(fault)}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return Ended(**json.loads(self._server.stdout.readline()))


def serve() -> None:
    """Fork for every line of the input."""
    _import_all()
    for line in sys.stdin:
        request = json.loads(line)
        fault = Fault(**request["fault"])
        pipes = [_pipe() for _ in ("output", "errors", "moments")]
        began = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)  # until the child is ready for them
        process = os.fork()
        if process == 0:
            _be_the_command(request["arguments"], Path(request["folder"]), fault, [writing for _, writing in pipes])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEEDED)
        code = _end_of(process, fault)
        output, errors, moments = (_taken(*pipe) for pipe in pipes)
        ended = Ended(code, output, errors, int(moments or 0), time.monotonic() - began)
        print(json.dumps(dataclasses.asdict(ended)), flush=True)


def _import_all() -> None:
    """What commands import on their way: every one of them would pay for it again."""
    telemetry.turn_off()
    import onnxruntime  # noqa: F401
    import openvino  # noqa: F401
    import scipy.optimize  # noqa: F401
    import torch._dynamo  # by the first optimizer, otherwise

    import pdqat.commands.evaluate
    import pdqat.commands.export
    import pdqat.commands.plan
    import pdqat.commands.sensitivity
    import pdqat.commands.show
    import pdqat.commands.train
    import pdqat.deployment.formats.onnx_file  # noqa: F401

    torch.set_num_threads(1)


def _end_of(process: int, fault: Fault) -> int:
    late = time.monotonic() + fault.seconds if fault.kind == "late signal" else None
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if late is not None and time.monotonic() >= late:
            os.kill(process, fault.number)
            late = None
        time.sleep(POLL)


def _be_the_command(arguments: list[str], folder: Path, fault: Fault, outputs: Sequence[int]) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(outputs[:2], start=1):
        os.dup2(file, number)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8") for number in (1, 2))  # noqa: PTH123, SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    moments = Moments(fault, folder)
    moments.inject()
    os._exit(_code(arguments, moments, outputs[2]))


def _code(arguments: list[str], moments: Moments, counted: int) -> int:
    from pdqat.cli import main

    code: Any
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEEDED)
        code = main(arguments)
        signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)
    except KeyboardInterrupt:  # before the command heeds it, or after
        code = 128 + signal.SIGINT
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(counted, str(moments.count).encode())
    return int(code or 0)


def _pipe() -> tuple[int, int]:
    """Large enough for all that a command says, and no file, which a quota would limit."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
    return reading, writing


def _taken(reading: int, writing: int) -> str:
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as said:
        return said.read()


if __name__ == "__main__":
    serve()
