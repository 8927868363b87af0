"""The flags of `pdqat plan`."""

from typing import Any

from pdqat.allocation.choices import CANDIDATES
from pdqat.config.words import FORMATS
from pdqat.flags.arguments import Pairs, path
from pdqat.flags.sensitivity import add_ranking


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "plan",
        help="choose every layer's bits under a budget",
        description="Costs of single layers propose plans under a budget; the best one that is measured is taken.",
    )
    parser.set_defaults(command="pdqat.commands.plan:run")
    add_ranking(parser, usual="loss")
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument(
        "--budget",
        action="append",
        metavar="TEXT",
        help="such as '2.5 bits', '12.5 %%' of the weights' size in float32, '40 KB' or '0.5 GBOPs', or several at "
        "once, '40 KB and 0.5 GBOPs'; give it again for another plan from the same measurements",
    )
    goal.add_argument(
        "--frontier",
        action="store_true",
        help="plans of all sizes, with predicted cost and accuracy, as table and picture",
    )
    parser.add_argument(
        "--bits",
        default=",".join(CANDIDATES),
        metavar="LIST",
        help=f"precisions to choose from (default: {','.join(CANDIDATES)}); with 0 residual branches may be dropped",
    )
    parser.add_argument(
        "--pin",
        nargs="+",
        action=Pairs,
        of_numbers=False,
        default={},
        metavar="PATTERN=X",
        help="precision of layers that is not to be chosen",
    )
    parser.add_argument(
        "--exclude",
        nargs="+",
        action="extend",
        default=[],
        metavar="PATTERN",
        help="layers to keep in full precision, which the budget does not count",
    )
    parser.add_argument(
        "--target",
        choices=tuple(FORMATS),
        help="only precisions that this format of `pdqat export` can write, layer by layer",
    )
    parser.add_argument(
        "--out",
        type=path,
        metavar="FILE",
        help="where to write the plan (default: RUN/plan.toml, or RUN/frontier.json); of several plans, the folder",
    )
