"""`allocate`: the plan with the least predicted cost within a budget."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from pdqat.allocation.budget import Budget, Unit
from pdqat.allocation.choices import CANDIDATES, Allowed, Bits
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.program import Solution
from pdqat.allocation.proposals import Chosen, Measure, choose, measuring
from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.precision import MIXED, Precision
from pdqat.sensitivity import BY_LOSS, SAMPLES, held_out
from pdqat.task import Problem
from pdqat.terminal import Tell, as_text, counting, new_table, not_told

MEASURED = "layers measured"
PROPOSED = "plans measured, at most"
FLOOR = "*: the mean multiplier, for bits that take the layer out of its tolerance"
BY_DISTANCE = "no multiplier is above 0: all layers have the same price, and distances decide"


@dataclass(frozen=True)
class Allocation:
    """A plan within a budget: give it to `problem.under_plan`, or print it."""

    budget: Budget
    chosen: Chosen
    measure: Measure | None = field(default=None, repr=False, compare=False)
    """What else is measured for another budget."""

    @classmethod
    def within(
        cls, budget: str | Budget, offered: Offer, measure: Measure | None = None, tell: Tell = not_told
    ) -> "Allocation":
        """The plan of an offer within a budget: the cheapest, or with a way to measure the best of what it proposes."""
        limit = budget if isinstance(budget, Budget) else Budget.parse(budget)
        chosen = choose(offered, limit, measure, tell)
        if offered.leaves_nothing_low(chosen.solution.precisions):
            raise InputError(f"within {limit} every layer would be dropped; give a larger budget, or pin a layer")
        return cls(limit, chosen, measure)

    def again(self, budget: str | Budget) -> "Allocation":
        """The plan within another budget, from the same measurements; the problem has to be as it was."""
        return Allocation.within(budget, self.offer, self.measure)

    @property
    def solution(self) -> Solution:
        """The precisions that were chosen, their predicted cost and what they use."""
        return self.chosen.solution

    @property
    def offer(self) -> Offer:
        """What was chosen from, and what was measured."""
        return self.chosen.offer

    @property
    def name(self) -> str:
        """Of the view that the plan makes."""
        return MIXED

    @property
    def precisions(self) -> Mapping[str, Precision]:
        """Of every layer."""
        return self.offer.plan(self.solution.precisions)

    def __str__(self) -> str:
        return as_text([plan_table([self]), *about_prices(self.offer), self.about()])

    def cost(self) -> str:
        """The loss, or where plans are not measured the predicted cost."""
        loss = self.chosen.loss
        return f"predicted cost {self.solution.cost:.4g}" if loss is None else f"loss {loss:.4g} without training"

    def about(self) -> str:
        """Cost and use, what was measured for it, and what the next better plan would take."""
        solution, proposed = self.solution, self.chosen.proposed
        lines = [f"{self.cost()}, using {solution.used} of {self.budget}"]
        if proposed:
            plans = "1 proposed plan" if len(proposed) == 1 else f"{len(proposed)} proposed plans"
            lines.append(f"{plans} measured; the first, by single layers alone, has the loss {proposed[0].loss:.4g}")
        if any(amount.unit is Unit.PERCENT for amount in self.budget.amounts):
            lines.append("per cent of what the weights of these layers take in float32, 32 bits each")
        if solution.next_budget is not None:
            takes = f"takes {solution.next_budget.rounded_up()}"
            if solution.next_cost is None:
                lines.append(f"the next plan that is predicted to be better {takes}")
            else:
                lines.append(f"the next better plan costs {solution.next_cost:.4g} and {takes}")
        return "\n".join(lines)


def plan_table(allocations: Sequence[Allocation]) -> Table:
    """Layer by layer, what it had and what it gets, under each budget of one offer side by side."""
    offered = allocations[0].offer
    priced = ["price", "if lowered"] if _has_floor(offered) else ["price"] if offered.prices else []
    budgets = ["bits"] if len(allocations) == 1 else [str(allocation.budget) for allocation in allocations]
    table = new_table()
    for heading in ("layer", "was", *budgets, "weights", *priced):
        table.add_column(heading, justify="left" if heading == "layer" else "right")
    for layer in offered.costs:
        bits = [str(allocation.solution.precisions[layer]) for allocation in allocations]
        price = offered.prices.get(layer)
        cells = ["", ""] if price is None else [f"{price.within:.2g}", f"{price.beyond:.2g}{'*' * price.is_floor}"]
        row = (layer, str(offered.before[layer]), *bits, f"{offered.sizes[layer].parameters:,}")
        table.add_row(*row, *cells[: len(priced)])
    return table


def about_prices(offered: Offer) -> list[str]:
    """What has to be said below such a table."""
    return [*[BY_DISTANCE][: offered.by == "distances"], *[FLOOR][: _has_floor(offered)]]


def _has_floor(offered: Offer) -> bool:
    """Whether a layer has another price for bits that take it out of its tolerance."""
    return any(price.is_floor for price in offered.prices.values())


def allocate(
    problem: Problem,
    batches: Batches,
    budget: str | Budget,
    *,
    bits: Iterable[Bits] = CANDIDATES,
    by: str = BY_LOSS,
    pin: Mapping[str, Bits] | None = None,
    exclude: Iterable[str] = (),
    allowed: Allowed | None = None,
    samples: int = SAMPLES,
    progress: bool = True,
) -> Allocation:
    """Choose every layer's bits: the best plan within the budget that was measured.

    A layer's predicted cost at a precision is what the task loss rises by when this layer alone has it, measured on the
    given batches. The cheapest plan is solved for exactly; its own loss is measured and corrects the costs, until they
    propose nothing new, and the measured plan of the least loss is chosen: see `pdqat.allocation.proposals`. By another
    ranking a cost is a price (the layer's multiplier, or what that ranking says) times the distance that the layer
    would have, and the cheapest plan is chosen unmeasured: faster, and worse. See `pdqat.allocation.prices`.

    Args:
        problem: a trained Lagrangian, or a TaskProblem, with one plan.
        batches: held-out samples to measure on: any iterable of (inputs, target).
        budget: what the plan may use: "2.5 bits" on average, "12.5 %" of the layers' weights in float32, "40 KB",
            "0.5 GBOPs", or several at once: "40 KB and 0.5 GBOPs".
        bits: the precisions to choose from. With 0 among them the last layer of a residual branch may be dropped, and
            with it the layers that only feed it.
        by: the ranking that sets the prices, a name of `pdqat.sensitivity.RANKINGS`.
        pin: precision by layer name or pattern that is not to be chosen.
        exclude: names or patterns of layers that stay in full precision and that the budget does not count.
        allowed: by layer the precisions that a target runs, as `pdqat.deployment.limits.run_by` tells; by default all.
        samples: how many of the samples to look at.
        progress: show a bar where there is a terminal.

    Returns:
        The plan with what was measured: give it to `problem.under_plan`, or print it.

    Examples:
        >>> import pdqat, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
        >>> plan = pdqat.allocate(problem, [(x, y)], "3 bits", bits=[2, 4, 8])
        >>> {layer: str(precision) for layer, precision in plan.precisions.items()}
        {'1': '2'}
    """
    limit = budget if isinstance(budget, Budget) else Budget.parse(budget)
    judges = held_out(problem, batches, samples)
    same: dict[str, Any] = {"bits": bits, "by": by, "pin": pin, "exclude": exclude, "allowed": allowed}
    with counting(MEASURED, progress) as tell:
        offered = offer(problem, judges, samples=samples, tell=tell, **same)
    with counting(PROPOSED, progress) as tell:
        return Allocation.within(limit, offered, measuring(problem, judges), tell)
