"""The paper's tables and figures as functions of the numbers that finished cells found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from pdqat.paper import figures, published
from pdqat.paper.cells import FULL_PRECISION_BITS
from pdqat.paper.results import OUTPUT, Entry
from pdqat.paper.statistics import (
    Difference,
    Stationarity,
    final_multipliers,
    layer_names,
    percent,
    rank_correlation,
)
from pdqat.paper.suites import (
    FIGURE_1_BITS,
    FIGURE_1_TOLERANCE,
    GAP_BITS,
    SETTLING_FIRST,
    baseline,
    layers,
)
from pdqat.paper.tables import Grid
from pdqat.sensitivity.report import LAST_EPOCHS
from pdqat.training.config import Method

DIFFERENCES = "Differences in points over the same seeds, with 95 % intervals of Student's t for pairs"
HEADINGS = {Method.STE: "baseline", Method.PDQAT_OUTPUT: "(i)", Method.PDQAT_LAYERS: "(ii)"}


@dataclass(frozen=True)
class Artefact:
    """What a suite shows."""

    tables: list[Grid]
    figures: dict[str, Figure] = field(default_factory=dict)
    """By what is added to the file's name."""


def _of(method: Method, bits: int, tolerance: float | None = None) -> Callable[[Entry], bool]:
    return lambda entry: (
        entry["method"] == method
        and entry["bits"] == bits
        and (tolerance is None or entry["tolerance"] == tolerance)
        and entry["kept"] is None
    )


def table1(found: Sequence[Entry]) -> Artefact:
    """Test accuracy of the low-precision model by bits and method, ours beside the paper's; and what is significant."""
    full = percent(found, "test_accuracy_full", _of(Method.FULL, FULL_PRECISION_BITS))
    paper_full = "{:.2f} ± {:.2f}".format(*published.TABLE_1[FULL_PRECISION_BITS, Method.FULL])
    rows = [(str(FULL_PRECISION_BITS), str(full), paper_full, *[""] * 4)]
    for bits in (8, 4, 2, 1):
        row = [str(bits)]
        for method in HEADINGS:
            row.append(str(percent(found, "test_accuracy_low", _of(method, bits))))
            row.append("{:.2f} ± {:.2f}".format(*published.TABLE_1[bits, method]))
        rows.append(tuple(row))
    headings = ("bits", *(text for name in HEADINGS.values() for text in (name, "paper")))
    title = "Table 1: test accuracy in low precision, mean ± standard deviation over seeds"
    return Artefact([Grid(title, headings, tuple(rows)), _significance(found)])


def _significance(found: Sequence[Entry]) -> Grid:
    rows = []
    for bits in (8, 4, 2, 1):
        by_seed = {
            method: {entry["seed"]: 100 * entry["test_accuracy_low"] for entry in found if _of(method, bits)(entry)}
            for method in HEADINGS
        }
        pairs = (
            (Method.PDQAT_OUTPUT, Method.STE),
            (Method.PDQAT_LAYERS, Method.STE),
            (Method.PDQAT_LAYERS, Method.PDQAT_OUTPUT),
        )
        rows.append((str(bits), *(_difference(by_seed[better], by_seed[other]) for better, other in pairs)))
    return Grid(DIFFERENCES, ("bits", "(i) - baseline", "(ii) - baseline", "(ii) - (i)"), tuple(rows))


def _difference(ours: dict[int, float], others: dict[int, float]) -> str:
    seeds = sorted(set(ours) & set(others))
    if len(seeds) == 1:
        return f"{ours[seeds[0]] - others[seeds[0]]:+.2f}, n = 1"
    return str(Difference.of([(ours[seed], others[seed]) for seed in seeds]) or "-")


def ablation_output(found: Sequence[Entry]) -> Artefact:
    """Test accuracy of (i) by output tolerance."""
    return _ablation(found, Method.PDQAT_OUTPUT, published.OUTPUT_ABLATION, "output")


def ablation_layer(found: Sequence[Entry]) -> Artefact:
    """Test accuracy of (ii) by layer tolerance."""
    return _ablation(found, Method.PDQAT_LAYERS, published.LAYER_ABLATION, "layer")


def _ablation(
    found: Sequence[Entry], method: Method, numbers: dict[tuple[int, float], float], of_what: str
) -> Artefact:
    rows = []
    for (bits, tolerance), theirs in numbers.items():
        where = _of(method, bits, tolerance)
        of_this = [entry for entry in found if where(entry)]
        met = ", ".join(f"{entry['constraints_met']} of {entry['constraints']}" for entry in of_this)
        ours = str(percent(found, "test_accuracy_low", where))
        rows.append((str(bits), f"{tolerance:g}", ours, f"{theirs:.2f}", met or "-"))
    title = f"Tightness of the {of_what} constraint: test accuracy in low precision"
    headings = ("bits", f"{of_what} tolerance", "ours", "paper", "constraints met, by seed")
    return Artefact([Grid(title, headings, tuple(rows))])


def figure1(found: Sequence[Entry]) -> Artefact:
    """Layer distances with and without layer constraints; what layers of large and small multipliers are worth."""
    with_layers = [entry for entry in found if _of(Method.PDQAT_LAYERS, FIGURE_1_BITS, FIGURE_1_TOLERANCE)(entry)]
    without = [entry for entry in found if _of(Method.PDQAT_OUTPUT, FIGURE_1_BITS)(entry)]
    kept = [entry for entry in found if entry["kept"] is not None]
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


def _mean_distances(found: Sequence[Entry], seeds: set[int]) -> dict[str, float]:
    """Over these seeds, the same on both sides of a comparison."""
    chosen = [entry["layer_distances"]["squared"] for entry in found if entry["seed"] in seeds]
    return {layer: sum(each[layer] for each in chosen) / len(chosen) for layer in chosen[0]}


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


def _multipliers(found: Sequence[Entry]) -> Grid:
    """Ours beside the paper's, whose tolerance is the same: do they name the same layers?"""
    finals = [final_multipliers(entry) for entry in found]
    ours = {layer: sum(each[layer] for each in finals) / len(finals) for layer in finals[0]}
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
        of_this = [entry for entry in kept if len(entry["kept"]) == count and entry["kept_largest"] is largest]
        if of_this:
            sums = [sum(entry["kept"].values()) for entry in of_this]
            accuracies = [percent(of_this, key, lambda _: True) for key in ("train_accuracy_low", "test_accuracy_low")]
            choice = "largest" if largest else "smallest"
            ours = [f"{sum(sums) / len(sums):.3f}", *map(str, accuracies)]
            rows.append((str(count), choice, *ours, f"{total:.3f}", f"{train:.1f}", f"{test:.1f}"))
    numbers = ("sum of multipliers", "train", "test")
    headings = ("layers kept", "multipliers", *(f"{whose}: {each}" for whose in ("ours", "paper") for each in numbers))
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
        rows.append((str(count), _difference(by_seed[True], by_seed[False]), f"{best - worst:+.1f}"))
    headings = ("layers kept", "test, largest - smallest", "paper")
    return Grid(DIFFERENCES, headings, tuple(rows))


def duals(found: Sequence[Entry]) -> Artefact:
    """The multipliers' way through training, and how settled they are."""
    return Artefact([_settled(found, None)], {"": figures.multipliers(found[0])} if found else {})


def settling(found: Sequence[Entry]) -> Artefact:
    """Which rule and rate lets multipliers settle, and what becomes of their ranking and of accuracy."""
    first = {entry["seed"]: entry for entry in found if entry["variant"] == SETTLING_FIRST}
    drawn = [entry for entry in found if entry["seed"] == found[0]["seed"]]
    return Artefact([_settled(found, first)], {"": figures.settling(drawn)} if drawn else {})


def _settled(found: Sequence[Entry], first: dict[int, Entry] | None) -> Grid:
    rows = []
    for entry in found:
        row = [entry["variant"] or entry["cell"], str(entry["seed"])]
        of_layers, of_output = (Stationarity.of(entry, names) for names in (layer_names(entry), [OUTPUT]))
        row += [f"{of_layers.change:.2f}", f"{of_layers.residual:.3f}", f"{of_layers.worst_slack:+.3f}"]
        row += [f"{of_output.change:.2f}", f"{of_output.residual:.3f}"]
        row.append(f"{100 * entry['test_accuracy_low']:.2f}")
        if first is not None:
            row.append(_rank_correlation(first[entry["seed"]], entry) if entry["seed"] in first else "-")
        rows.append(tuple(row))
    headings = ["cell", "seed", *(f"layers: {each}" for each in ("change", "residual", "worst slack"))]
    headings += [f"output: {each}" for each in ("change", "residual")]
    headings += ["test, low"] + (["rank correlation"] if first is not None else [])
    title = f"How settled multipliers are at the end: change in the last {LAST_EPOCHS} epochs, residual, slack"
    return Grid(title, tuple(headings), tuple(rows))


def _rank_correlation(one: Entry, other: Entry) -> str:
    return f"{rank_correlation(final_multipliers(one), final_multipliers(other)):.2f}"


def gap(found: Sequence[Entry]) -> Artefact:
    """Accuracy of each variant, and what it is worth: over the paper's method, and over the baseline."""
    by_seed: dict[str, dict[int, float]] = {}
    for entry in found:
        if entry["test_accuracy_low"] is not None:
            by_seed.setdefault(_trained(entry), {})[entry["seed"]] = 100 * entry["test_accuracy_low"]
    bits = next((entry["bits"] for entry in found if entry["method"] != Method.FULL), GAP_BITS)
    references = [cell(bits, 0).trained for cell in (layers, baseline)]
    rows = tuple(
        (name, *("" if name == each else _difference(ours, by_seed.get(each, {})) for each in references))
        for name, ours in by_seed.items()
    )
    worth = Grid(DIFFERENCES, ("cells", "test, low - (ii)", "test, low - baseline"), rows)
    return Artefact([*by_variant(found).tables, worth])


def by_variant(found: Sequence[Entry]) -> Artefact:
    """Accuracy of each variant."""
    rows = []
    for name in dict.fromkeys(map(_trained, found)):
        of_this = [entry for entry in found if _trained(entry) == name]
        views = tuple(f"{part}_accuracy_{view}" for view in ("low", "full") for part in ("validation", "test"))
        numbers = [str(percent(of_this, key, lambda _: True)) for key in views]
        rows.append((name, str(of_this[0]["epochs"]), *numbers))
    headings = ("cells", "epochs", "validation, low", "test, low", "validation, full", "test, full")
    return Artefact([Grid("Accuracy, mean ± standard deviation over seeds", headings, tuple(rows))])


def _trained(entry: Entry) -> str:
    return str(entry["cell"]).rpartition("-seed")[0]


ARTEFACTS: dict[str, Callable[[Sequence[Entry]], Artefact]] = {
    "table1": table1,
    "ablation-output": ablation_output,
    "ablation-layer": ablation_layer,
    "figure1": figure1,
    "duals": duals,
    "schedule": by_variant,
    "gap": gap,
    "gap-1bit": gap,
    "settling": settling,
}
