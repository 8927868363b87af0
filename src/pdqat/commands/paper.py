"""`pdqat paper run` and `pdqat paper show`."""

import argparse
import fnmatch
from pathlib import Path

from pdqat import data
from pdqat.config.device import available
from pdqat.errors import InputError
from pdqat.experiments.cells import Cell
from pdqat.experiments.executors import Executor, LocalExecutor, RayExecutor, Resources
from pdqat.experiments.matrix import Matrix
from pdqat.experiments.progress import MatrixProgress
from pdqat.experiments.protocol import Protocol
from pdqat.paper.protocols import PROTOCOLS, own_protocol
from pdqat.paper.show import show
from pdqat.paper.suites import cells
from pdqat.process import cores
from pdqat.terminal import PlainConsole


def _where(options: argparse.Namespace) -> tuple[Protocol, Path]:
    own = own_protocol(options.suite)
    protocol = own if options.protocol is None else PROTOCOLS[options.protocol]
    usual = Path("results") / ("paper" if protocol.name == own.name else f"paper-{protocol.name}")
    folder = options.folder or usual
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--folder has to be a folder, and {folder} is a file")
    return protocol, folder


def _wanted(options: argparse.Namespace, protocol: Protocol) -> list[Cell]:
    all_cells = cells(options.suite, options.seeds or protocol.seeds)
    wanted = [cell for cell in all_cells if fnmatch.fnmatch(cell.name, options.only)]
    if not wanted:
        names = ", ".join(cell.name for cell in all_cells)
        raise InputError(f"no cell of {options.suite} fits --only {options.only!r}; the cells are {names}")
    return wanted


def run(options: argparse.Namespace) -> None:
    """Train what is missing of a suite, or list it."""
    protocol, folder = _where(options)
    ray = options.executor == "ray"
    threads = 1 if ray else max(1, cores() // (options.jobs or 1))
    matrix = Matrix(_wanted(options, protocol), protocol, folder, options.amp)
    console = PlainConsole()
    if options.list:
        matrix.check()
        for state in matrix.states():
            done = "finished" if state.finished else f"{state.done} of {state.epochs} epochs"
            console.print(f"{state.cell.name}: {done}")
        return
    resources = Resources(threads, options.device)
    if not ray and not all(state.finished for state in matrix.states()):
        available(options.device)
        data.load(protocol.data)  # before the first cell, rather than once a cell
    executor: Executor = RayExecutor(options.jobs, resources) if ray else LocalExecutor(options.jobs or 1, resources)
    try:
        with MatrixProgress(console) as progress:
            matrix.run(executor, progress)
    except KeyboardInterrupt as stop:
        stop.add_note(options.as_typed)
        raise
    seen = f"pdqat paper show {options.suite} --protocol {protocol.name} --folder {folder}"
    console.print(f"all {len(matrix.cells)} cells are finished; see them with: {seen}")


def show_suite(options: argparse.Namespace) -> None:
    """Show what is finished of a suite."""
    show(options.suite, *_where(options), PlainConsole())
