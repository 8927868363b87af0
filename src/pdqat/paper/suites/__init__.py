"""The suites: which cells each artefact needs, the most telling first."""

from collections import Counter
from collections.abc import Callable

from pdqat.experiments.cells import Cell
from pdqat.paper.suites import ingredients, paper, scale, tiny, trials

Suite = Callable[[int], list[Cell]]
"""Makes the cells for a seed."""

SUITES: dict[str, Suite] = {
    "table1": paper.table1,
    "ablation-output": paper.ablation_output,
    "ablation-layer": paper.ablation_layer,
    "figure1": paper.figure1,
    "duals": paper.duals,
    "schedule": trials.schedule,
    "gap": trials.gap,
    "gap-1bit": trials.gap_1bit,
    "settling": trials.settling,
    "tiny": tiny.tiny,
    "ingredients": ingredients.ingredients,
    "scale": scale.scale,
}


def cells(suite: str, seeds: int) -> list[Cell]:
    """All cells of a suite, the first seed first; at the end what only some of the seeds have."""
    made = [cell for seed in range(seeds) for cell in SUITES[suite](seed)]
    times = Counter(cell.trained for cell in made)
    return sorted(made, key=lambda cell: times[cell.trained] < seeds)
