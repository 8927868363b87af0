"""`allocate`: the plan with the least predicted cost within a budget."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.table import Table

from pdqat.allocation.budget import Budget, Unit
from pdqat.allocation.choices import CANDIDATES, Bits
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.program import Solution, cheapest_plan
from pdqat.batches import Batches
from pdqat.precision import MIXED, Precision
from pdqat.sensitivity import SAMPLES
from pdqat.task import Problem
from pdqat.terminal import as_text, new_table

FLOOR = "*: the mean multiplier, for bits that take the layer out of its tolerance"
"""Below a table with such prices."""


@dataclass(frozen=True)
class Allocation:
    """A plan within a budget: give it to `problem.under_plan`, or print it."""

    budget: Budget
    solution: Solution
    offer: Offer

    @property
    def name(self) -> str:
        """Of the view that the plan makes."""
        return MIXED

    @property
    def precisions(self) -> Mapping[str, Precision]:
        """Of every layer."""
        return self.offer.plan(self.solution.precisions)

    def __str__(self) -> str:
        return as_text([self.table(), self.about()])

    def table(self) -> Table:
        """Layer by layer, what it had and what it gets."""
        table = new_table()
        for heading in ("layer", "was", "bits", "weights", "price", *self._lowered("if lowered")):
            table.add_column(heading, justify="left" if heading == "layer" else "right")
        for layer, precision in self.solution.precisions.items():
            was, size = self.offer.before[layer], self.offer.sizes[layer]
            price = self.offer.prices.get(layer)
            cells = ["", ""] if price is None else [f"{price.within:.2g}", f"{price.beyond:.2g}{'*' * price.is_floor}"]
            table.add_row(layer, str(was), str(precision), f"{size.parameters:,}", cells[0], *self._lowered(cells[1]))
        return table

    def _lowered(self, text: str) -> list[str]:
        """A column's text, if a layer has another price for bits that take it out of its tolerance."""
        return [text] if any(price.is_floor for price in self.offer.prices.values()) else []

    def about(self) -> str:
        """Cost and use, and what the next better plan would take."""
        solution, lines = self.solution, []
        if self.offer.by == "distances":
            lines.append("no multiplier is above 0: all layers have the same price, and distances decide")
        if self._lowered(""):
            lines.append(FLOOR)
        lines += [f"predicted cost {solution.cost:.4g}, using {solution.used} of {self.budget}"]
        if self.budget.unit is Unit.PERCENT:
            lines.append("per cent of what the weights of these layers take in float32, 32 bits each")
        if solution.next_budget is not None:
            better = f"the next better plan costs {solution.next_cost:.4g}"
            lines.append(f"{better} and takes {solution.next_budget.rounded_up()}")
        return "\n".join(lines)


def allocate(
    problem: Problem,
    batches: Batches,
    budget: str | Budget,
    *,
    bits: Iterable[Bits] = CANDIDATES,
    by: str = "dual",
    pin: Mapping[str, Bits] | None = None,
    exclude: Iterable[str] = (),
    samples: int = SAMPLES,
) -> Allocation:
    """Choose every layer's bits: the plan with the least predicted cost within the budget, solved exactly.

    A layer's predicted cost at a precision is its price (its multiplier, or what another ranking says) times the
    distance that it would have there, measured on the given batches. Beyond its tolerance a layer's price is no less
    than the mean multiplier: see `pdqat.allocation.prices`.

    Args:
        problem: a trained Lagrangian, or a TaskProblem, with one plan.
        batches: held-out samples to measure distances on: any iterable of (inputs, target).
        budget: what the plan may use: "2.5 bits" on average, "12.5 %" of the layers' weights in float32, "40 KB",
            "0.5 GBOPs".
        bits: the precisions to choose from.
        by: the ranking that sets the prices, a name of `pdqat.sensitivity.RANKINGS`.
        pin: precision by layer name or pattern that is not to be chosen.
        exclude: names or patterns of layers that stay in full precision and that the budget does not count.
        samples: how many of the samples to look at.

    Returns:
        The plan with its predicted cost: give it to `problem.under_plan`, or print it.

    Example:
        >>> import pdqat, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
        >>> plan = pdqat.allocate(problem, [(x, y)], "3 bits", bits=[2, 4, 8])
        >>> {layer: str(precision) for layer, precision in plan.precisions.items()}
        {'1': '2'}
    """
    limit = budget if isinstance(budget, Budget) else Budget.parse(budget)
    offered = offer(problem, batches, bits=bits, by=by, pin=pin, exclude=exclude, samples=samples)
    return Allocation(limit, cheapest_plan(offered.costs, offered.sizes, limit), offered)
