"""Table 1 and the ablations of its tolerances: test accuracy in low precision, ours beside the paper's."""

from collections.abc import Sequence

from pdqat.config.train_config import Method
from pdqat.experiments.cells import FULL_PRECISION_BITS
from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import percent
from pdqat.experiments.tables import Grid
from pdqat.paper import published
from pdqat.paper.artefact import DIFFERENCES, Artefact, difference, select

HEADINGS = {Method.STE: "baseline", Method.PDQAT_OUTPUT: "(i)", Method.PDQAT_LAYERS: "(ii)"}


def table1(entries: Sequence[Entry]) -> Artefact:
    """Test accuracy of the low-precision model by bits and method, ours beside the paper's; and what is significant."""
    full = percent(select(entries, Method.FULL, FULL_PRECISION_BITS), "test_accuracy_full")
    paper_full = "{:.2f} ± {:.2f}".format(*published.TABLE_1[FULL_PRECISION_BITS, Method.FULL])
    rows = [(str(FULL_PRECISION_BITS), str(full), paper_full, *[""] * 4)]
    for bits in (8, 4, 2, 1):
        row = [str(bits)]
        for method in HEADINGS:
            row.append(str(percent(select(entries, method, bits), "test_accuracy_low")))
            row.append("{:.2f} ± {:.2f}".format(*published.TABLE_1[bits, method]))
        rows.append(tuple(row))
    headings = ("bits", *(text for name in HEADINGS.values() for text in (name, "paper")))
    title = "Table 1: test accuracy in low precision, mean ± standard deviation over seeds"
    return Artefact([Grid(title, headings, tuple(rows)), _significance(entries)])


def _significance(entries: Sequence[Entry]) -> Grid:
    rows = []
    for bits in (8, 4, 2, 1):
        by_seed = {
            method: {entry["seed"]: 100 * entry["test_accuracy_low"] for entry in select(entries, method, bits)}
            for method in HEADINGS
        }
        pairs = (
            (Method.PDQAT_OUTPUT, Method.STE),
            (Method.PDQAT_LAYERS, Method.STE),
            (Method.PDQAT_LAYERS, Method.PDQAT_OUTPUT),
        )
        rows.append((str(bits), *(difference(by_seed[better], by_seed[other]) for better, other in pairs)))
    return Grid(DIFFERENCES, ("bits", "(i) - baseline", "(ii) - baseline", "(ii) - (i)"), tuple(rows))


def ablation_output(entries: Sequence[Entry]) -> Artefact:
    """Test accuracy of (i) by output tolerance."""
    return _ablation(entries, Method.PDQAT_OUTPUT, published.OUTPUT_ABLATION, "output")


def ablation_layer(entries: Sequence[Entry]) -> Artefact:
    """Test accuracy of (ii) by layer tolerance."""
    return _ablation(entries, Method.PDQAT_LAYERS, published.LAYER_ABLATION, "layer")


def _ablation(
    entries: Sequence[Entry], method: Method, numbers: dict[tuple[int, float], float], of_what: str
) -> Artefact:
    rows = []
    for (bits, tolerance), theirs in numbers.items():
        of_tolerance = select(entries, method, bits, tolerance)
        met = ", ".join(f"{entry['constraints_met']} of {entry['constraints']}" for entry in of_tolerance)
        ours = str(percent(of_tolerance, "test_accuracy_low"))
        rows.append((str(bits), f"{tolerance:g}", ours, f"{theirs:.2f}", met or "-"))
    title = f"Tightness of the {of_what} constraint: test accuracy in low precision"
    headings = ("bits", f"{of_what} tolerance", "ours", "paper", "constraints met, by seed")
    return Artefact([Grid(title, headings, tuple(rows))])
