"""`pdqat paper run` and `pdqat paper show`."""

import argparse
import fnmatch
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat import data
from pdqat.commands.arguments import count
from pdqat.config.device import available
from pdqat.errors import InputError
from pdqat.experiments.cells import Cell
from pdqat.experiments.executors import Executor, LocalExecutor, RayExecutor, Resources
from pdqat.experiments.matrix import Matrix
from pdqat.experiments.progress import MatrixProgress
from pdqat.experiments.protocol import Protocol
from pdqat.paper.protocols import PROTOCOLS
from pdqat.paper.show import show
from pdqat.paper.suites import SUITES, cells
from pdqat.process import cores


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    paper = commands.add_parser(
        "paper",
        help="reproduce the paper's tables and figures",
        description="Train the runs behind the tables and figures of the paper, and show them beside its numbers.",
    )
    actions = paper.add_subparsers(title="actions", required=True, metavar="ACTION")
    run = actions.add_parser(
        "run",
        help="train the runs of a suite",
        description="Train what is missing of a suite. Stop it at any time: the same command continues.",
    )
    run.set_defaults(command=_run)
    _add_suite(run)
    run.add_argument("--seeds", type=count, metavar="N", help="seeds 0 to N-1 (default: the protocol's number)")
    run.add_argument("--only", metavar="GLOB", default="*", help="only cells whose name fits, such as '*-2bit-*'")
    run.add_argument("--jobs", type=count, metavar="N", help="cells trained at once (default: 1; with Ray all it can)")
    run.add_argument("--executor", choices=("local", "ray"), default="local", help="where (default: local)")
    run.add_argument("--device", metavar="NAME", default="cpu", help="cpu, cuda, cuda:1, mps (default: cpu)")
    run.add_argument("--list", action="store_true", help="only print the cells and how far each is")
    show = actions.add_parser(
        "show",
        help="show a suite's tables and figures",
        description="Print the tables of what is finished; write them, figures and raw numbers into the folder.",
    )
    show.set_defaults(command=_show)
    _add_suite(show)


def _add_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", metavar="SUITE", choices=tuple(SUITES), help=", ".join(SUITES))
    about = "; ".join(f"{protocol.name}: {protocol.about}" for protocol in PROTOCOLS.values())
    parser.add_argument("--protocol", choices=tuple(PROTOCOLS), default="budget", help=f"{about} (default: budget)")
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="where runs and results are (default: results/paper; results/paper-NAME under another protocol)",
    )


def _where(options: argparse.Namespace) -> tuple[Protocol, Path]:
    protocol = PROTOCOLS[options.protocol]
    usual = Path("results") / ("paper" if protocol.name == "budget" else f"paper-{protocol.name}")
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


def _run(options: argparse.Namespace) -> None:
    protocol, folder = _where(options)
    ray = options.executor == "ray"
    threads = 1 if ray else max(1, cores() // (options.jobs or 1))
    matrix = Matrix(_wanted(options, protocol), protocol, folder)
    console = Console()
    if options.list:
        matrix.check()
        for state in matrix.states():
            done = "finished" if state.finished else f"{state.done} of {state.epochs} epochs"
            console.print(f"{state.cell.name}: {done}", highlight=False)
        return
    resources = Resources(threads, options.device)
    if not ray and not all(state.finished for state in matrix.states()):
        available(options.device)
        data.load(protocol.data)  # before the first cell, rather than once a cell
    executor: Executor = RayExecutor(options.jobs, resources) if ray else LocalExecutor(options.jobs or 1, resources)
    with MatrixProgress(console) as progress:
        matrix.run(executor, progress)
    seen = f"pdqat paper show {options.suite} --protocol {protocol.name} --folder {folder}"
    console.print(f"all {len(matrix.cells)} cells are finished; see them with: {seen}", highlight=False, markup=False)


def _show(options: argparse.Namespace) -> None:
    show(options.suite, *_where(options), Console())
