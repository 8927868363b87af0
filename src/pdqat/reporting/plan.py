"""The bit plan layer by layer, with the size and the predicted cost of the very same plan."""

from dataclasses import dataclass

from pdqat.allocation.budget import FULL_BITS, Unit, plan_uses
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize, layer_sizes
from pdqat.precision import FULL, Precision
from pdqat.reporting.subject import Subject
from pdqat.runs.entries import scores_in


@dataclass(frozen=True)
class PlannedLayer:
    """A layer of the network under a plan."""

    layer: str
    precision: str
    weight_bits: int
    activation_bits: int
    """32 stands for full precision."""
    parameters: int | None
    """None where only the run's files are known."""
    operations: int | None
    cost: float | None
    """Multiplier times distance: what the plan's rounding of this layer costs the objective, to first order."""
    reason: str
    """Why it is in full precision, if `prepare` left it so."""


@dataclass(frozen=True)
class PlannedView:
    """A plan, and what it takes."""

    view: str
    layers: list[PlannedLayer]
    average_bits: float | None
    """Of the weights of the plan's layers."""
    cost: float | None
    """The sum over the layers."""


def plan_of(subject: Subject) -> list[PlannedView]:
    """One for every low-precision view."""
    trained = scores_in(subject.summary)
    plans = {view: plan for view, plan in subject.summary["plans"].items() if view in trained}
    if not plans:
        raise InputError("full precision alone was trained")
    sizes = _sizes(subject)
    return [_planned(subject, view, precisions, sizes) for view, precisions in plans.items()]


def _sizes(subject: Subject) -> dict[str, LayerSize]:
    """In the model's order; empty where only files are known."""
    if subject.known_problem is None:
        return {}
    net = subject.known_problem.net
    sizes, in_order = layer_sizes(net, every=True), list(net.layers)
    first = [name for name in sizes if name not in in_order]
    before = [name for name in first if _stands_before(name, in_order, list(sizes))]
    after = [name for name in first if name not in before]
    return {name: sizes[name] for name in (*before, *in_order, *after)}


def _stands_before(name: str, quantized: list[str], every: list[str]) -> bool:
    """Whether the model has a layer that is not quantised in front of those that are."""
    return not quantized or every.index(name) < min(every.index(other) for other in quantized)


def _planned(subject: Subject, view: str, precisions: dict[str, str], sizes: dict[str, LayerSize]) -> PlannedView:
    costs = _costs(subject, view)
    left_alone = subject.summary.get("left_alone", {})
    layers = []
    for name in sizes or precisions:
        precision = Precision.parse(precisions.get(name, "full"))
        size = sizes.get(name)
        layers.append(
            PlannedLayer(
                name,
                str(precision),
                FULL_BITS if precision.weight is None else precision.weight,
                FULL_BITS if precision.activation is None else precision.activation,
                None if size is None else size.parameters,
                None if size is None else size.operations,
                costs.get(name),
                _why(precision, left_alone.get(name, "full precision by the plan")),
            )
        )
    counted = {name: sizes[name] for name in precisions if name in sizes}
    parsed = {name: Precision.parse(bits) for name, bits in precisions.items()}
    average = plan_uses(Unit.BITS, parsed, counted) if counted else None
    return PlannedView(view, layers, average, sum(costs.values()) if costs else None)


def _why(precision: Precision, in_full: str) -> str:
    if precision.is_dropped:
        return "dropped by the plan"
    return in_full if precision == FULL else ""


def _costs(subject: Subject, view: str) -> dict[str, float]:
    """By layer, multiplier x distance, summed over its channels where they have bounds of their own."""
    costs: dict[str, float] = {}
    for entry in subject.summary["constraints"]:
        if entry["kind"] in ("layer", "channel") and entry.get("view", view) == view:
            multiplier, distance = entry["multiplier"], entry["distance"]
            parts = zip(multiplier, distance, strict=True) if isinstance(distance, list) else [(multiplier, distance)]
            costs[entry["where"]] = costs.get(entry["where"], 0.0) + sum(price * far for price, far in parts)
    return costs
