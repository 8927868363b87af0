"""Offer: every layer's precisions with their predicted costs and sizes, measured once, for any budget."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pdqat.allocation.choices import CANDIDATES, Allowed, Bits, candidates_in, choices
from pdqat.allocation.joint import Branches, Costs
from pdqat.allocation.prices import Prediction, Price, dual_prices, predict, predict_by_loss
from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.layers.choosing import why_not_dropped
from pdqat.layers.sizes import LayerSize, layer_sizes
from pdqat.precision import DROPPED, FULL, MIXED, BitPlan, Precision
from pdqat.rules import check_all_match, resolve
from pdqat.sensitivity import BY_LOSS, SAMPLES, held_out, layer_scores
from pdqat.sensitivity.low_layers import low_layers, plan_of
from pdqat.task import Problem
from pdqat.terminal import Tell, not_told


@dataclass(frozen=True)
class Offer:
    """What can be chosen, and what it is predicted to cost."""

    by: str
    """What the prices go by: a ranking, or "distances" where no multiplier is above 0."""
    prices: Mapping[str, Price]
    """Of the layers that can choose."""
    costs: Costs
    """Per layer and precision; a layer with one precision can't choose."""
    sizes: Mapping[str, LayerSize]
    """Of the layers in `costs`."""
    before: Mapping[str, Precision]
    """The plan so far."""
    excluded: list[str]
    """Layers that stay in full precision and are not counted."""
    branches: Branches = field(default_factory=dict)
    """By layer that may be dropped, the layers that only feed it."""

    def plan(self, precisions: Mapping[str, Precision]) -> dict[str, Precision]:
        """Every layer's precision, with these chosen."""
        return {**self.before, **dict.fromkeys(self.excluded, FULL), **precisions}

    def leaves_nothing_low(self, precisions: Mapping[str, Precision]) -> bool:
        """Whether all layers that could be low are dropped."""
        plan = BitPlan(MIXED, self.plan(precisions))
        return bool(plan.dropped_layers) and not plan.low_layers


def offer(
    problem: Problem,
    batches: Batches,
    *,
    bits: Iterable[Bits] = CANDIDATES,
    by: str = BY_LOSS,
    pin: Mapping[str, Bits] | None = None,
    exclude: Iterable[str] = (),
    allowed: Allowed | None = None,
    samples: int = SAMPLES,
    tell: Tell = not_told,
) -> Offer:
    """Measure every candidate precision: see `allocate` for the arguments. Losses `tell` which layer they are at."""
    candidates = candidates_in(bits)
    if not isinstance(pin, Mapping | None):
        raise InputError(f"pin holds precisions by name or pattern, such as {{'head': 8}}, not {pin!r}")
    if isinstance(exclude, str) or not isinstance(exclude, Iterable):
        raise InputError(f"exclude is a list of names or patterns, such as ['head'], not {exclude!r}")
    pinned = {pattern: Precision.parse(precision) for pattern, precision in (pin or {}).items()}
    patterns = list(exclude)
    named = plan_of(problem).precisions
    check_all_match(patterns, named, "the excluded layer")
    excluded = [layer for layer in named if resolve(dict.fromkeys(patterns, True), layer, False)]
    judges = held_out(problem, batches, samples)
    scores = dict.fromkeys(low_layers(problem), 0.0) if by == BY_LOSS else layer_scores(problem, judges, by)
    check_all_match(pinned, scores, "the pinned layer")
    free = [layer for layer in scores if layer not in excluded]
    if not free:
        raise InputError("all layers are excluded: there is none to choose a precision for")
    check_all_match(pinned, free, "outside the excluded layers the pinned layer")
    spare = _spare(problem, free, pinned)
    offered = choices(free, candidates, pinned, allowed, spare)
    goes_by, predicted = _predicted(problem, judges, by, scores, offered, tell)
    table = {layer: predicted.costs.get(layer, {named[layer]: 0.0}) for layer in named if layer not in excluded}
    sizes = layer_sizes(problem.net)
    branches = {layer: feeding for layer, feeding in spare.items() if DROPPED in offered[layer]}
    return Offer(goes_by, predicted.prices, table, {layer: sizes[layer] for layer in table}, named, excluded, branches)


def _spare(problem: Problem, free: Sequence[str], pinned: Mapping[str, Precision]) -> dict[str, list[str]]:
    """By layer that can be dropped, those that only feed it: all of them may be, none is fixed at other bits.

    Without them a layer in low precision has to be left.
    """
    known = problem.net.preparation.branches
    pins = {layer: resolve(pinned, layer, None) for layer in free}
    spare = {}
    for layer in (it for it in free if it in known):
        feeding = [it for it in plan_of(problem).precisions if it in known[layer].feeding]
        fixed = next((it for it in feeding if it not in free or pins[it] not in (None, DROPPED)), None)
        others_are_low = not {layer, *feeding} >= set(plan_of(problem).low_layers)
        if fixed is None and others_are_low:
            spare[layer] = feeding
        elif pins[layer] == DROPPED:
            rest = "no layer is left in low precision" if fixed is None else f"{fixed!r}, which only feeds it, is kept"
            raise InputError(f"{layer!r} is pinned to 0 bits, but {rest}")
    for layer, pin in pins.items():
        if pin == DROPPED and layer not in spare:
            raise InputError(why_not_dropped(layer, "the pin", known))
    return spare


def _predicted(
    problem: Problem,
    judges: Batches,
    by: str,
    scores: Mapping[str, float],
    choices: Mapping[str, Sequence[Precision]],
    tell: Tell,
) -> tuple[str, Prediction]:
    """What the costs go by, and the costs."""
    if by == BY_LOSS:
        return by, predict_by_loss(problem, judges, choices, tell)
    if by != "dual":
        return by, predict(problem, judges, scores, False, choices)
    scores, basis = dual_prices(scores)
    return basis if basis == "distances" else by, predict(problem, judges, scores, True, choices)
