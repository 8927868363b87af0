"""The multipliers of the run: what a layer's constraint costs the objective (Theorem 1 of the paper)."""

from pdqat.errors import InputError
from pdqat.sensitivity.subject import Subject
from pdqat.training.run import layer_multipliers


def multipliers(subject: Subject) -> dict[str, float]:
    """After the last epoch."""
    found = layer_multipliers(subject.metrics[-1])
    if not found:
        raise InputError(
            f"the run {subject.run.path} has no layer multipliers: train with method pdqat-layers and level layer, "
            "or choose another ranking"
        )
    return found
