"""The artefact of every suite, as a function of the entries of its finished cells."""

from collections.abc import Callable, Sequence

from pdqat.experiments.results import Entry
from pdqat.paper.artefact import Artefact
from pdqat.paper.figure1 import figure1
from pdqat.paper.ingredients import ingredients
from pdqat.paper.scale import scale
from pdqat.paper.settling import duals, settling
from pdqat.paper.table1 import ablation_layer, ablation_output, table1
from pdqat.paper.tiny import tiny
from pdqat.paper.variants import by_variant, gap

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
    "tiny": tiny,
    "ingredients": ingredients,
    "scale": scale,
}
