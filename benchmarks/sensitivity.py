"""Which ranking knows best where bits matter, on CIFAR-10: the multipliers beside what others use instead.

    python benchmarks/sensitivity.py --jobs 2 --seeds 0 1 2 trains what is missing below runs/sensitivity, prints tables
    python benchmarks/sensitivity.py --table                prints the tables of what is finished

For every seed the width-1 pre-activation ResNet-20 is trained at 2 bits. Then

truth       for every layer the test loss and accuracy when this layer alone is kept in full precision, evaluated
            without training; for the layers at the top and the bottom also after the same short training
rankings    the time each takes, and its rank correlation (Spearman) with the fall of the loss and the gain in accuracy
plans       each ranking's plan of 2.5 bits on average, trained from the 2-bit run for the same few epochs, beside
            uniform 2 and 3 bits; rankings that choose the same plan share its training
otherwise   truth and rankings of networks trained with other dual rules: finished cells of
            `pdqat paper run settling --protocol quick`

Everything can be stopped and continued. The numbers go to results/sensitivity.json, which keeps those of seeds and
cells that were measured elsewhere.
"""

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from cells import spread, train
from measure import RESULTS, commit, machine, write
from rich.table import Table
from scipy.stats import spearmanr

from pdqat.allocation.budget import Budget
from pdqat.allocation.choices import CANDIDATES, candidates_in, choices
from pdqat.allocation.prices import predict
from pdqat.allocation.program import cheapest_plan
from pdqat.batches import Batches, pairs
from pdqat.config.trained import Trained
from pdqat.disk import write_atomically
from pdqat.flags.arguments import count
from pdqat.layers.norm_statistics import STATISTICS_BATCHES, estimate_statistics
from pdqat.layers.sizes import layer_sizes
from pdqat.paper.protocols import PROTOCOLS
from pdqat.paper.show import seeds_to_show
from pdqat.paper.suites import cells
from pdqat.paper.suites.trials import SETTLED
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.runs.folder import Run
from pdqat.runs.plan_file import read_plan, write_plan
from pdqat.sensitivity import RANKINGS, SAMPLES, held_out
from pdqat.sensitivity.low_layers import low_layers, plan_of
from pdqat.task import Problem
from pdqat.terminal import PlainConsole

FOLDER = Path(__file__).parents[1] / "runs" / "sensitivity"
PAPER = RESULTS / "paper-quick"
RESULT = "sensitivity"
BUDGET = Budget.parse("2.5 bits")
COMMON = "--data cifar10 --model preresnet20 --bits 2 --train-images 10000 --threads 1"
CONSTRAINTS = "--output-tolerance 0.1 --layer-tolerance 0.1 --dual-rule multiplicative --dual-rate 0.5"
BASE = f"{COMMON} {CONSTRAINTS} --epochs 10 --lr 1e-2 --schedule one-cycle --compile".split(" ")
"""As in the cells of `pdqat paper run settling` whose multipliers settle."""
RETRAINED = ["--epochs", "2", "--lr", "2e-3", "--no-compile"]
"""Each plan is another graph: for so few epochs compiling would take longer than it saves."""
ENDS = 2
"""So many layers at the top and at the bottom of the truth are also trained."""
UNIFORM = {"uniform 2 bits": "2", "uniform 3 bits": "3"}


def base(seed: int) -> Run:
    return Run(FOLDER / f"base-{seed}")


def opened(run: Run) -> Trained:
    return Trained.open_finished(run.path, purpose="rank")


@torch.no_grad()
def measured(problem: Problem, plan: BitPlan, training: Batches, test: Batches) -> tuple[float, float]:
    """Loss and accuracy of the weights under a plan, with statistics of its own and without training for it."""
    net = problem.under_plan(plan).net
    estimate_statistics(net, net.plans[plan.name], training, STATISTICS_BATCHES)
    net.eval()
    loss, right, samples = 0.0, 0, 0
    with net.under(plan.name):
        for inputs, target in pairs(test):
            output = net(inputs)
            loss += float(F.cross_entropy(output, target, reduction="sum"))
            right += int((output.argmax(1) == target).sum())
            samples += len(target)
    return loss / samples, right / samples


def truth(trained: Trained) -> dict[str, dict[str, float]]:
    """Per layer what keeping it alone in full precision brings, on the test images."""
    problem, test = trained.problem, trained.loaders.test
    assert test is not None
    plan, training = plan_of(problem), list(islice(trained.loaders.training, STATISTICS_BATCHES))
    loss, accuracy = measured(problem, plan, training, test)
    gains = {}
    for layer in low_layers(problem):
        high = BitPlan(plan.name, {**plan.precisions, layer: FULL})
        loss_with, accuracy_with = measured(problem, high, training, test)
        gains[layer] = {"loss": loss - loss_with, "accuracy": accuracy_with - accuracy}
    return gains


def ranked(run: Run, real: dict[str, dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Per ranking its scores, the seconds it took, and its rank correlation with the truth."""
    rankings = {}
    for name, ranking in RANKINGS.items():
        trained = opened(run)  # anew, so that none finds what another one has left behind
        judges = held_out(trained.problem, trained.loaders.validation, SAMPLES)
        started = time.perf_counter()
        scores = ranking(trained.problem, judges)
        seconds = time.perf_counter() - started
        rankings[name] = {"seconds": seconds, "correlation": correlations(scores, real), "scores": scores}
    return rankings


def correlations(scores: dict[str, float], real: dict[str, dict[str, float]]) -> dict[str, float]:
    """Spearman's, with each kind of truth."""
    return {
        kind: float(spearmanr([scores[layer] for layer in real], [gain[kind] for gain in real.values()]).statistic)
        for kind in ("loss", "accuracy")
    }


def judged(run: Run, path: Path, console: PlainConsole) -> dict[str, Any]:
    """Truth and rankings of a network, measured once."""
    if not path.exists():
        console.print(f"{run.path.name}: measuring every layer")
        real = truth(opened(run))
        content = {"truth": real, "rankings": ranked(run, real)}
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    stored: dict[str, Any] = json.loads(path.read_text())
    return stored


def judged_file(seed: int) -> Path:
    return FOLDER / f"judged-{seed}.json"


def ends(real: dict[str, dict[str, float]]) -> dict[str, str]:
    """The layers to keep in full precision and train, with where they stand."""
    layers = sorted(real, key=lambda layer: -real[layer]["loss"])
    return dict.fromkeys(layers[:ENDS], "top") | dict.fromkeys(layers[-ENDS:], "bottom")


def plan_files(seed: int, scores: dict[str, dict[str, float]]) -> dict[str, Path]:
    """Each ranking's plan; where no score is above 0 there is none."""
    telling = [name for name, of_layer in scores.items() if max(of_layer.values()) > 0]
    paths = {name: FOLDER / f"plan-{name}-{seed}.toml" for name in telling}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        trained = opened(base(seed))
        problem, sizes = trained.problem, layer_sizes(trained.problem.net)
        judges = held_out(problem, trained.loaders.validation, SAMPLES)
        allowed = choices(low_layers(problem), candidates_in(CANDIDATES), {})
        for name in missing:
            costs = predict(problem, judges, scores[name], name == "dual", allowed).costs
            solution = cheapest_plan(costs, sizes, BUDGET)
            write_plan(paths[name], solution.precisions, f"{solution.used} of {BUDGET}, by {name}")
    return paths


def trained_as(seed: int, content: dict[str, Any]) -> dict[str, str]:
    """Per ranking the first one that chose the same plan, under whose name it is trained."""
    paths = plan_files(seed, {name: ranking["scores"] for name, ranking in content["rankings"].items()})
    first: dict[frozenset[tuple[str, Precision]], str] = {}
    return {name: first.setdefault(frozenset(read_plan(path).items()), name) for name, path in paths.items()}


def plan_trainings(seed: int, content: dict[str, Any]) -> dict[str, list[str]]:
    """By name, how each is started; first what the others are compared with."""
    plans = dict.fromkeys(trained_as(seed, content).values())
    return {name: ["--bits", bits] for name, bits in UNIFORM.items()} | {
        name: ["--plan", str(FOLDER / f"plan-{name}-{seed}.toml")] for name in plans
    }


def layer_trainings(seed: int, content: dict[str, Any]) -> dict[str, list[str]]:
    """With one layer at an end of the truth in full precision."""
    commands = {}
    for layer in ends(content["truth"]):
        path = FOLDER / f"plan-only-{layer}-{seed}.toml"
        precisions = {**dict.fromkeys(content["truth"], Precision(2, 2)), layer: FULL}
        write_plan(path, precisions, f"only {layer} in full precision")
        commands[f"only {layer}"] = ["--plan", str(path)]
    return commands


def retrained(seed: int, name: str) -> Run:
    return Run(FOLDER / f"{name.replace(' ', '-')}-{seed}")


def finished(seed: int) -> dict[str, Any]:
    """What there is of a seed that was judged."""
    content: dict[str, Any] = json.loads(judged_file(seed).read_text())
    names = trained_as(seed, content) | {name: name for name in (*UNIFORM, *layer_trainings(seed, content))}
    runs = {name: retrained(seed, trained) for name, trained in names.items()}
    content["base"] = base(seed).summary()["accuracy"]
    content["trained"] = {
        name: {"accuracy": run.summary()["accuracy"], "plan": next(iter(run.summary()["plans"].values()))}
        for name, run in runs.items()
        if run.summary_file.exists()
    }
    return {"seed": seed, "machine": machine(), **content}


def otherwise(measure: bool, console: PlainConsole) -> list[dict[str, Any]]:
    """Truth and rankings of networks trained with other dual rules; those not measured yet only if asked to."""
    networks = []
    seeds = seeds_to_show("settling", PROTOCOLS["quick"], PAPER)
    for cell in (cell for cell in cells("settling", seeds) if cell.variant != SETTLED):
        path = FOLDER / f"judged-{cell.name}.json"
        if path.exists() or (measure and cell.is_finished(PAPER) and cell.run(PAPER).best.exists()):
            content = judged(cell.run(PAPER), path, console)
            about = {"cell": cell.name, "variant": cell.variant, "seed": cell.seed, "machine": machine()}
            networks.append({**about, **content})
    return networks


def with_earlier(kind: str, key: str, new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the results hold already, with the new in place of the old."""
    path = RESULTS / f"{RESULT}.json"
    earlier = json.loads(path.read_text())[kind] if path.exists() else []
    entries = {entry[key]: entry for entry in [*earlier, *new]}
    return [entries[name] for name in sorted(entries)]


def low_accuracy(entry: dict[str, Any], name: str) -> float | None:
    trained = entry["trained"].get(name)
    if trained is None:
        return None
    return next(100 * float(parts["test"]) for view, parts in trained["accuracy"].items() if view != "full")


def trained_accuracy(entries: list[dict[str, Any]], name: str) -> tuple[str, str, str]:
    """Over the seeds that have it, their number, and its gain over uniform 2 bits of the same seeds."""
    both = [(low_accuracy(entry, name), low_accuracy(entry, "uniform 2 bits")) for entry in entries]
    known = [(mine, other) for mine, other in both if mine is not None and other is not None]
    return spread([mine for mine, _ in known]), str(len(known)), spread([mine - other for mine, other in known])


def show(entries: list[dict[str, Any]], console: PlainConsole) -> None:
    table = Table(title=f"n = {len(entries)} seeds; mean (standard deviation)")
    for heading in (
        "ranking",
        "correlation, loss",
        "correlation, accuracy",
        "seconds",
        f"test accuracy at {BUDGET}",
        "n",
        "over 2 bits",
    ):
        table.add_column(heading)
    for name in RANKINGS:
        of_name = [entry["rankings"][name] for entry in entries]
        correlations = [spread([ranking["correlation"][kind] for ranking in of_name]) for kind in ("loss", "accuracy")]
        seconds = spread([ranking["seconds"] for ranking in of_name])
        table.add_row(name, *correlations, seconds, *trained_accuracy(entries, name))
    for name in UNIFORM:
        table.add_row(name, "", "", "", *trained_accuracy(entries, name))
    console.print(table)
    table = Table(title="one layer in full precision: gain in test accuracy, in points")
    for heading in ("seed", "layer", "where", "evaluated", "trained, over uniform 2 bits"):
        table.add_column(heading)
    for entry in entries:
        for layer, where in ends(entry["truth"]).items():
            after, uniform = low_accuracy(entry, f"only {layer}"), low_accuracy(entry, "uniform 2 bits")
            gain = "" if after is None or uniform is None else f"{after - uniform:+.2f}"
            table.add_row(str(entry["seed"]), layer, where, f"{100 * entry['truth'][layer]['accuracy']:+.2f}", gain)
    console.print(table)


def show_otherwise(entries: list[dict[str, Any]], others: list[dict[str, Any]], console: PlainConsole) -> None:
    networks = {SETTLED: entries}
    for other in others:
        networks.setdefault(other["variant"], []).append(other)
    table = Table(title="rank correlation with the loss, by the dual rule of the network; mean (standard deviation)")
    table.add_column("ranking")
    for variant, of_variant in networks.items():
        table.add_column(f"{variant}, n = {len(of_variant)}")
    for name in RANKINGS:
        table.add_row(
            name,
            *(spread([entry["rankings"][name]["correlation"]["loss"] for entry in of]) for of in networks.values()),
        )
    table.add_row("multipliers of two seeds", *(agreement(of, multipliers) for of in networks.values()))
    table.add_row("truth of two seeds", *(agreement(of, fall_of_loss) for of in networks.values()))
    console.print(table)


def multipliers(entry: dict[str, Any]) -> dict[str, float]:
    scores: dict[str, float] = entry["rankings"]["dual"]["scores"]
    return scores


def fall_of_loss(entry: dict[str, Any]) -> dict[str, float]:
    return {layer: gain["loss"] for layer, gain in entry["truth"].items()}


def agreement(entries: list[dict[str, Any]], what: Callable[[dict[str, Any]], dict[str, float]]) -> str:
    """The rank correlation of two networks that differ in nothing but the seed: what can be known of it at all."""
    return spread(
        [float(spearmanr(*(list(what(one).values()) for one in pair)).statistic) for pair in combinations(entries, 2)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=count, default=1, help="trainings at once, one thread each")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="SEED")
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    console = PlainConsole(width=110)
    FOLDER.mkdir(parents=True, exist_ok=True)
    seeds = options.seeds
    if not options.table:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda seed: train(base(seed), [*BASE, "--seed", str(seed)]), seeds))
            # one at a time, since rankings are timed
            seen = {seed: judged(base(seed), judged_file(seed), console) for seed in seeds}
            jobs = [
                (retrained(seed, name), [*RETRAINED, "--from", str(base(seed).path), *arguments])
                for trainings in (plan_trainings, layer_trainings)  # plans of all seeds first, since they tell most
                for seed in seeds
                for name, arguments in trainings(seed, seen[seed]).items()
            ]
            list(pool.map(lambda job: train(*job), jobs))
    finished_here = [finished(seed) for seed in seeds if judged_file(seed).exists()]
    others_here = otherwise(not options.table, console)
    entries, others = with_earlier("seeds", "seed", finished_here), with_earlier("otherwise", "cell", others_here)
    if entries:
        show(entries, console)
        show_otherwise(entries, others, console)
    if finished_here or others_here:
        content = {"base": BASE, "retrained": RETRAINED, "seeds": entries, "otherwise": others}
        write(RESULT, {"commit": commit(), **content})
        console.print(f"written: {RESULTS / RESULT}.json")


if __name__ == "__main__":
    main()
