"""The flags of `pdqat paper run` and `pdqat paper show`."""

import argparse
from typing import Any

from pdqat.config.words import OWN_PROTOCOLS, PROTOCOLS, SUITES, USUAL_PROTOCOL
from pdqat.flags.arguments import count, path


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
    run.set_defaults(command="pdqat.commands.paper:run")
    _add_suite(run)
    run.add_argument("--seeds", type=count, metavar="N", help="seeds 0 to N-1 (default: the protocol's number)")
    run.add_argument("--only", metavar="GLOB", default="*", help="only cells whose name fits, such as '*-2bit-*'")
    run.add_argument("--jobs", type=count, metavar="N", help="cells trained at once (default: 1; with Ray all it can)")
    run.add_argument("--executor", choices=("local", "ray"), default="local", help="where (default: local)")
    run.add_argument("--device", metavar="NAME", default="cpu", help="cpu, cuda, cuda:1, mps (default: cpu)")
    run.add_argument(
        "--amp",
        action="store_true",
        help="train cells that start now in bfloat16: faster on processors with units for it, slower elsewhere",
    )
    run.add_argument("--list", action="store_true", help="only print the cells and how far each is")
    show = actions.add_parser(
        "show",
        help="show a suite's tables and figures",
        description="Print the tables of what is finished; write them, figures and raw numbers into the folder.",
    )
    show.set_defaults(command="pdqat.commands.paper:show_suite")
    _add_suite(show)


def _add_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", metavar="SUITE", choices=SUITES, help=", ".join(SUITES))
    about = "; ".join(f"{name}: {text}" for name, text in PROTOCOLS.items())
    own = ", ".join(f"{name} for {suite}" for suite, name in OWN_PROTOCOLS.items())
    usual = f"the suite's own: {own}, {USUAL_PROTOCOL} for the others"
    parser.add_argument("--protocol", choices=tuple(PROTOCOLS), help=f"{about} (default: {usual})")
    parser.add_argument(
        "--folder",
        type=path,
        metavar="DIR",
        help="where runs and results are (default: results/paper; results/paper-NAME under another protocol)",
    )
