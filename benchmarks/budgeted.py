"""A budget inside one run against plan-then-train, at equal epochs: which is more accurate under the same budget?

    python benchmarks/budgeted.py --seeds 5
    python benchmarks/budgeted.py --table                 prints the table of what is finished

The quick start's network and options on the digits, 2 bits to start with and a budget of 2.5 bits on average. With as
many epochs in all:

    budget        one run, `--budget`, bits chosen after 0.3 and 0.6 of the epochs by multipliers
    plan by loss  half of the epochs at 2 bits, `pdqat plan` (its default), then the other half under the plan
    plan by dual  the same with `pdqat plan --rank dual`

Test accuracy of the low-precision view of the best epoch by validation. Pairs are of one seed, which sets the split,
the order and the first weights. Results go to results/budgeted.json after every seed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from cells import command, spread, train
from measure import RESULTS, commit, machine

from pdqat.disk import write_atomically
from pdqat.experiments.statistics import Difference
from pdqat.flags.arguments import count
from pdqat.runs.entries import scores_in
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole, new_table, print_whole

FOLDER = Path(__file__).parents[1] / "runs" / "budgeted"
FILE = RESULTS / "budgeted.json"
BUDGET = "2.5 bits"
EPOCHS = 30
USUAL = ["--preset", "quickstart", "--bits", "2"]


def measured(seed: int) -> dict[str, Any]:
    """Test accuracy of every way, in per cent, for one seed."""
    folder = FOLDER / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    whole, half = ["--epochs", str(EPOCHS)], ["--epochs", str(EPOCHS // 2)]
    start = [*USUAL, "--seed", str(seed)]
    ways = {"budget": Run(folder / "budget")}
    train(ways["budget"], [*start, *whole, "--budget", BUDGET])
    first = Run(folder / "first")
    train(first, [*start, *half])
    for rank in ("loss", "dual"):
        run, plan = Run(folder / rank), folder / f"{rank}.toml"
        if not plan.exists():
            command("plan", str(first.path), "--budget", BUDGET, "--rank", rank, "--out", str(plan))
        train(run, ["--from", str(first.path), "--plan", str(plan), *half])
        ways[f"plan by {rank}"] = run
    return {name: accuracy(run) for name, run in ways.items()}


def accuracy(run: Run) -> float:
    """Of the one low-precision view on test images."""
    scores = {view: score["test"] for view, score in scores_in(run.summary()).items() if view != "full"}
    (score,) = scores.values()
    return 100 * float(score)


def show(content: dict[str, Any], console: PlainConsole) -> None:
    by_seed = list(content["seeds"].values())
    table = new_table(f"digits, {content['epochs']} epochs in all, {content['budget']}: test accuracy, %")
    for heading in ("way", "n", "mean (deviation)", "minus plan by loss"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way in by_seed[0] if by_seed else ():
        pairs = [(of_seed[way], of_seed["plan by loss"]) for of_seed in by_seed]
        difference = None if way == "plan by loss" else Difference.of(pairs)
        values = [of_seed[way] for of_seed in by_seed]
        table.add_row(way, str(len(values)), spread([*values]), "" if difference is None else str(difference))
    print_whole(console, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=count, default=5)
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    known: dict[str, Any] = {"budget": BUDGET, "epochs": EPOCHS, "seeds": {}}
    if FILE.exists():
        known = json.loads(FILE.read_text())
    for seed in range(0 if options.table else options.seeds):
        if str(seed) not in known["seeds"]:
            known["seeds"][str(seed)] = measured(seed)
            known["machine"] = {**machine(), "commit": commit()}
            write_atomically(FILE, (json.dumps(known, indent=1) + "\n").encode())
    show(known, PlainConsole())


if __name__ == "__main__":
    main()
