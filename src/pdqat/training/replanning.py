"""Replanning: choosing bits under a budget while a problem trains, from its multipliers so far (`--budget`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pdqat.allocation.budget import Budget
from pdqat.allocation.choices import CANDIDATES, Bits, candidates_in, choices
from pdqat.allocation.prices import predict
from pdqat.allocation.program import Solution, cheapest_plan
from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers.sizes import LayerSize, layer_sizes
from pdqat.precision import MAX_BITS, MIXED, BitPlan, Precision
from pdqat.rules import check_all_match, resolve
from pdqat.sensitivity import SAMPLES, held_out
from pdqat.sensitivity.duals import multipliers
from pdqat.task import Problem


@dataclass(frozen=True)
class Replan:
    """What was chosen, and what by."""

    solution: Solution
    by: str


class Replanning:
    """A budget, and when bits are chosen under it.

    Args:
        budget: what the plan may use: "2.5 bits" on average, "12.5 %" of float32, "40 KB", "0.5 GBOPs".
        bits: the precisions to choose from; all with quantised weights, since others leave no multiplier to go by.
        at: the parts of the epochs after which bits are chosen.
        layers: precision by layer name or pattern that is not to be chosen; those in full precision don't count.
    """

    def __init__(
        self,
        budget: str | Budget,
        *,
        bits: Iterable[Bits] = CANDIDATES,
        at: Sequence[float] = (0.3, 0.6),
        layers: Mapping[str, Bits] | None = None,
    ) -> None:
        self.budget = budget if isinstance(budget, Budget) else Budget.parse(budget)
        self.at = tuple(at)
        self._candidates = candidates_in(bits)
        self._rules = {pattern: Precision.parse(precision) for pattern, precision in (layers or {}).items()}
        if not self.at or not all(0 < part < 1 for part in self.at):
            raise InputError(f"bits are chosen after parts of the epochs, above 0 and below 1, not {list(self.at)}")
        if any(not precision.weight for precision in self._candidates):
            raise InputError(
                "the bits to choose from must be precisions with quantised weights: others leave no multiplier to go by"
            )

    def epochs(self, total: int) -> frozenset[int]:
        """The epochs, counted from 0, before which bits are chosen."""
        if total < 2:
            raise InputError(
                "under a budget there must be an epoch before bits are chosen and one after: epochs 2 or more"
            )
        return frozenset(max(1, min(total - 1, round(part * total))) for part in self.at)

    def started(self, problem: Problem) -> Lagrangian:
        """The problem with its plan by layers, since that will change; raises InputError if it can't be planned for."""
        if not isinstance(problem, Lagrangian) or not any(it.kind == "layer" for it in problem.constraints):
            raise InputError("a budget is spent by the multipliers of layers: the problem has no layer constraints")
        plan, net = problem.net.only_plan("spend a budget"), problem.net
        check_all_match(self._rules, [*net.layers, *net.left_alone], "the layer rule")
        precisions = {layer: resolve(self._rules, layer, before) for layer, before in plan.precisions.items()}
        if plan.name != MIXED or precisions != plan.precisions:
            problem = problem.under_plan(BitPlan(MIXED, precisions))
        self._check(problem)
        return problem

    def choose(self, problem: Lagrangian, batches: Batches) -> Replan:
        """The plan with the least predicted cost, and what it was chosen by.

        Where no multiplier is above 0 yet, all layers have the same price, and distances decide.
        """
        judges = held_out(problem, batches, SAMPLES)
        scores, by = multipliers(problem, judges), "multipliers"
        if not any(scores.values()):
            scores, by = dict.fromkeys(scores, 1.0), "distances"
        allowed = self._choices(problem)
        costs = predict(problem, judges, scores, True, {layer: allowed[layer] for layer in scores}).costs
        table = {layer: costs.get(layer, dict.fromkeys(precisions, 0.0)) for layer, precisions in allowed.items()}
        sizes = self._sizes(problem)
        return Replan(cheapest_plan(table, {layer: sizes[layer] for layer in table}, self.budget), by)

    def used(self, problem: Problem) -> Budget:
        """What the problem's plan takes, of layers whose bits are chosen."""
        plan = problem.net.only_plan("spend a budget")
        return self.budget.used_by(plan.precisions, self._sizes(problem))

    def _check(self, problem: Lagrangian) -> None:
        plan, allowed = problem.net.only_plan("spend a budget"), self._choices(problem)
        if not any(plan[layer].weight for layer in allowed):
            raise InputError("a budget is for layers whose weights are quantised, and the plan to start with has none")
        if all(len(precisions) == 1 for precisions in allowed.values()):
            raise InputError("the precision of every layer is fixed by layers: the budget leaves nothing to choose")
        free = {layer: dict.fromkeys(precisions, 0.0) for layer, precisions in allowed.items()}
        cheapest_plan(free, self._sizes(problem), self.budget)  # which says if none fits
        lowest = {layer: min(options, key=lambda it: it.weight or MAX_BITS) for layer, options in allowed.items()}
        problem.check_plan(BitPlan(MIXED, lowest))

    def _choices(self, problem: Problem) -> dict[str, list[Precision]]:
        """What each layer that the budget counts may be given; full precision in the starting plan stays."""
        plan, counted = problem.net.only_plan("spend a budget"), self._sizes(problem)
        quantized = [layer for layer in counted if plan[layer].weight]
        pinned = {pattern: precision for pattern, precision in self._rules.items() if precision.weight}
        return {layer: [plan[layer]] for layer in counted} | choices(quantized, self._candidates, pinned)

    def _sizes(self, problem: Problem) -> dict[str, LayerSize]:
        """Of the plan's layers, but for those that a rule leaves in full precision."""
        full = {pattern: precision.weight is None for pattern, precision in self._rules.items()}
        return {layer: size for layer, size in layer_sizes(problem.net).items() if not resolve(full, layer, False)}
