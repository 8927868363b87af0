"""How multipliers move through training, and how settled they are at its end."""

from collections.abc import Sequence

from pdqat.experiments.results import OUTPUT, Entry
from pdqat.experiments.statistics import JointStationarity, final_multipliers, layer_names, rank_correlation
from pdqat.experiments.tables import Grid
from pdqat.paper import figures
from pdqat.paper.artefact import Artefact
from pdqat.paper.suites.trials import SETTLING_FIRST
from pdqat.sensitivity.ranking import LAST_EPOCHS


def duals(entries: Sequence[Entry]) -> Artefact:
    """The multipliers' way through training, and how settled they are."""
    return Artefact([_settled(entries, None)], {"": figures.multipliers(entries[0])} if entries else {})


def settling(entries: Sequence[Entry]) -> Artefact:
    """Which rule and rate lets multipliers settle, and what becomes of their ranking and of accuracy."""
    first = {entry["seed"]: entry for entry in entries if entry["variant"] == SETTLING_FIRST}
    drawn = [entry for entry in entries if entry["seed"] == entries[0]["seed"]]
    return Artefact([_settled(entries, first)], {"": figures.settling(drawn)} if drawn else {})


def _settled(entries: Sequence[Entry], first: dict[int, Entry] | None) -> Grid:
    rows = []
    for entry in entries:
        row = [entry["variant"] or entry["cell"], str(entry["seed"])]
        of_layers, of_output = (JointStationarity.of(entry, names) for names in (layer_names(entry), [OUTPUT]))
        row += [f"{of_layers.total_change:.2f}", f"{of_layers.largest_residual:.3f}", f"{of_layers.largest_slack:+.3f}"]
        row += [f"{of_output.total_change:.2f}", f"{of_output.largest_residual:.3f}"]
        row.append(f"{100 * entry['test_accuracy_low']:.2f}")
        if first is not None:
            row.append(_rank_correlation(first[entry["seed"]], entry) if entry["seed"] in first else "-")
        rows.append(tuple(row))
    headings = ["cell", "seed", *(f"layers: {name}" for name in ("change", "residual", "worst slack"))]
    headings += [f"output: {name}" for name in ("change", "residual")]
    headings += ["test, low"] + (["rank correlation"] if first is not None else [])
    title = f"How settled multipliers are at the end: change in the last {LAST_EPOCHS} epochs, residual, slack"
    return Grid(title, tuple(headings), tuple(rows))


def _rank_correlation(one: Entry, other: Entry) -> str:
    return f"{rank_correlation(final_multipliers(one), final_multipliers(other)):.2f}"
