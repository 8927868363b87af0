"""Figure 1: what layer constraints do to layers, and which layers their multipliers keep in full precision."""

from collections.abc import Sequence

from pdqat.config.train_config import Method
from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import final_multipliers, percent, rank_correlation
from pdqat.experiments.tables import Grid
from pdqat.paper import figures, published
from pdqat.paper.artefact import DIFFERENCES, Artefact, difference, select
from pdqat.paper.suites.paper import FIGURE_1_BITS, FIGURE_1_TOLERANCE


def figure1(entries: Sequence[Entry]) -> Artefact:
    """Layer distances with and without layer constraints; what layers of large and small multipliers are worth."""
    with_layers = select(entries, Method.PDQAT_LAYERS, FIGURE_1_BITS, FIGURE_1_TOLERANCE)
    without = select(entries, Method.PDQAT_OUTPUT, FIGURE_1_BITS)
    kept = [entry for entry in entries if entry["kept"] is not None]
    tables, drawn = [], {}
    seeds = {entry["seed"] for entry in with_layers} & {entry["seed"] for entry in without}
    if seeds:
        before, after = _mean_distances(without, seeds), _mean_distances(with_layers, seeds)
        tables.append(_distances(before, after, len(seeds)))
        drawn["a"] = figures.distances(before, after, FIGURE_1_TOLERANCE)
    if with_layers:
        tables.append(_multipliers(with_layers))
    if kept:
        tables += [_kept(kept), _choice(kept)]
        drawn["b"] = figures.by_sum(kept)
        drawn["c"] = figures.by_number(kept)
    return Artefact(tables, drawn)


def _mean_distances(entries: Sequence[Entry], seeds: set[int]) -> dict[str, float]:
    """The mean squared error of every layer over these seeds, the same on both sides of a comparison."""
    return _mean_by_layer([entry["layer_distances"]["squared"] for entry in entries if entry["seed"] in seeds])


def _mean_by_layer(by_seed: Sequence[dict[str, float]]) -> dict[str, float]:
    return {layer: sum(of_seed[layer] for of_seed in by_seed) / len(by_seed) for layer in by_seed[0]}


def _distances(without: dict[str, float], with_layers: dict[str, float], seeds: int) -> Grid:
    rows = []
    for layer, before in without.items():
        after = with_layers[layer]
        theirs = (
            "{:.3f} -> {:.3f}".format(*published.LAYER_DISTANCES[layer]) if layer in published.LAYER_DISTANCES else ""
        )
        rows.append((layer, f"{before:.4f}", f"{after:.4f}", f"{before / after:.1f}" if after else "-", theirs))
    headings = ("layer", "output only", "output and layers", "times smaller", "paper")
    return Grid(f"Figure 1a: mean squared error of layers at 1 bit (n = {seeds})", headings, tuple(rows))


def _multipliers(entries: Sequence[Entry]) -> Grid:
    """Ours beside the paper's, whose tolerance is the same: do they name the same layers?"""
    ours = _mean_by_layer([final_multipliers(entry) for entry in entries])
    theirs = {layer: value for layer, value in published.FIGURE_1_MULTIPLIERS.items() if layer in ours}
    rows = [
        (layer, f"{ours[layer]:.4f}", f"{theirs[layer]:.3f}" if layer in theirs else "")
        for layer in sorted(ours, key=lambda layer: -ours[layer])
    ]
    agreement = rank_correlation(theirs, ours) if theirs else float("nan")
    title = f"Multipliers at 1 bit, the largest first; rank correlation with the paper's {agreement:.2f}"
    return Grid(title, ("layer", "ours", "paper"), tuple(rows))


def _kept(kept: Sequence[Entry]) -> Grid:
    rows = []
    for (count, largest), (total, train, test) in sorted(published.KEPT_LAYERS.items()):
        retrained = [entry for entry in kept if len(entry["kept"]) == count and entry["kept_largest"] is largest]
        if retrained:
            sums = [sum(entry["kept"].values()) for entry in retrained]
            accuracies = [percent(retrained, key) for key in ("train_accuracy_low", "test_accuracy_low")]
            choice = "largest" if largest else "smallest"
            ours = [f"{sum(sums) / len(sums):.3f}", *map(str, accuracies)]
            rows.append((str(count), choice, *ours, f"{total:.3f}", f"{train:.1f}", f"{test:.1f}"))
    columns = ("sum of multipliers", "train", "test")
    headings = ("layers kept", "multipliers", *(f"{whose}: {name}" for whose in ("ours", "paper") for name in columns))
    return Grid(
        "Figures 1b and 1c: accuracy at 1 bit with layers kept in full precision, retrained", headings, tuple(rows)
    )


def _choice(kept: Sequence[Entry]) -> Grid:
    """Do the largest multipliers choose better than the smallest?"""
    rows = []
    for count in sorted({len(entry["kept"]) for entry in kept}):
        by_seed: dict[bool, dict[int, float]] = {True: {}, False: {}}
        for entry in kept:
            if len(entry["kept"]) == count:
                by_seed[entry["kept_largest"]][entry["seed"]] = 100 * entry["test_accuracy_low"]
        (_, _, best), (_, _, worst) = (published.KEPT_LAYERS[count, largest] for largest in (True, False))
        rows.append((str(count), difference(by_seed[True], by_seed[False]), f"{best - worst:+.1f}"))
    headings = ("layers kept", "test, largest - smallest", "paper")
    return Grid(DIFFERENCES, headings, tuple(rows))
