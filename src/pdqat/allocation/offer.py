"""Offer: every layer's precisions with their predicted costs and sizes, measured once, for any budget."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pdqat.allocation.choices import CANDIDATES, Allowed, Bits, candidates_in, choices
from pdqat.allocation.fitted import Trial, fitted
from pdqat.allocation.joint import Branches, Costs, counted
from pdqat.allocation.prices import Prediction, Price, dual_prices, predict
from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.layers.choosing import why_not_dropped
from pdqat.layers.sizes import LayerSize, layer_sizes
from pdqat.precision import DROPPED, FULL, MIXED, BitPlan, Precision
from pdqat.rules import check_all_match, resolve
from pdqat.sensitivity import BY_LOSS, SAMPLES, held_out, layer_scores
from pdqat.sensitivity.low_layers import low_layers, plan_of
from pdqat.sensitivity.trials import candidate_losses
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
    alone: list[Trial] = field(default_factory=list)
    """By loss: the plan to `start` from, and that with one layer at a time at another precision."""
    proposed: list[Trial] = field(default_factory=list)
    """Plans that were measured since, for any budget."""

    @property
    def start(self) -> dict[str, Precision]:
        """The plan that losses are measured around: the plan so far, and what can't be chosen as it will be."""
        return _start(self.before, self.excluded, self.costs, self.branches)

    def fitted(self, trials: list[Trial]) -> "Offer":
        """With the costs that fit these losses best."""
        return replace(self, costs=fitted(self.costs, self.branches, self.start, trials))

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
    branches = {layer: feeding for layer, feeding in spare.items() if DROPPED in offered[layer]}
    all_sizes = layer_sizes(problem.net)
    sizes = {layer: all_sizes[layer] for layer in named if layer not in excluded}
    if by == BY_LOSS:
        every = {layer: offered.get(layer, [named[layer]]) for layer in sizes}
        start = BitPlan(MIXED, _start(named, excluded, every, branches))
        tried = {layer: offered[layer] for layer in counted(start.precisions, offered, branches)}
        alone = _alone(start, branches, *candidate_losses(problem, judges, start, tried, tell))
        costs = fitted(every, branches, start.precisions, alone)
        return Offer(by, {}, costs, sizes, named, excluded, branches, alone)
    goes_by, predicted = _predicted(problem, judges, by, scores, offered)
    table = {layer: predicted.costs.get(layer, {named[layer]: 0.0}) for layer in sizes}
    return Offer(goes_by, predicted.prices, table, sizes, named, excluded, branches)


def _start(
    before: Mapping[str, Precision],
    excluded: Iterable[str],
    choices: Mapping[str, Collection[Precision]],
    branches: Branches,
) -> dict[str, Precision]:
    """The plan so far, with excluded layers in full precision, and layers that have one choice at that."""
    fixed = {layer: next(iter(of_layer)) for layer, of_layer in choices.items() if len(of_layer) == 1}
    gone = [it for layer, feeding in branches.items() if fixed.get(layer) == DROPPED for it in feeding]
    return {**before, **dict.fromkeys(excluded, FULL), **fixed, **dict.fromkeys(gone, DROPPED)}


def _alone(
    start: BitPlan, branches: Branches, as_it_is: float, losses: Mapping[str, Mapping[Precision, float]]
) -> list[Trial]:
    """What was measured, as trials; a branch is dropped whole."""
    trials = [Trial({}, as_it_is)]
    for layer, of_layer in losses.items():
        for precision, loss in of_layer.items():
            if precision != start[layer]:
                others = dict.fromkeys(branches[layer], DROPPED) if precision.is_dropped else {}
                trials.append(Trial({**others, layer: precision}, loss))
    return trials


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
) -> tuple[str, Prediction]:
    """What the prices go by, and the costs."""
    if by != "dual":
        return by, predict(problem, judges, scores, False, choices)
    scores, basis = dual_prices(scores)
    return basis if basis == "distances" else by, predict(problem, judges, scores, True, choices)
