"""The layer distance alone: how far a layer's low-precision output is from its full-precision one."""

from pdqat.sensitivity.probe import distances
from pdqat.sensitivity.subject import Subject


def layer_distance(subject: Subject) -> dict[str, float]:
    """At the run's own precisions."""
    precisions = dict.fromkeys(subject.plan[name] for name in subject.layers)
    found = distances(subject, list(precisions))
    return {name: found[name][subject.plan[name]] for name in subject.layers}
