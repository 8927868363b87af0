"""Stages: what a training trains, epoch by epoch.

It may begin in full precision alone (the warm-up), under more bits than the plan's own (progressive), or choose bits
under a budget on the way (replanning). All of that happens before an epoch, and a checkpoint says where it stands, so
a training that is continued goes through the same stages.
"""

from typing import Any

from pdqat.batches import Batches
from pdqat.distributed import from_first
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers.transfer import start_views
from pdqat.precision import MIXED, BitPlan
from pdqat.task import Problem, TaskProblem, trains_low
from pdqat.training.flips import check_weights
from pdqat.training.progressive import plans_by_epoch
from pdqat.training.replanning import Replanning
from pdqat.training.settings import Settings
from pdqat.training.state import state_of, with_state


class Stages:
    """The stages of one problem's training; raises InputError for those that it can't go through."""

    def __init__(self, problem: Problem, settings: Settings, replanning: Replanning | None = None) -> None:
        if replanning is not None and settings.progressive:
            raise InputError(
                "progressive bits lead to a plan that is known, and a budget chooses one: give one of both"
            )
        self._settings = settings
        self._replanning = replanning
        self._given = problem if replanning is None else replanning.started(problem)
        self._plans = plans_by_epoch(self._given, settings)
        self._replan_epochs = frozenset() if replanning is None else replanning.epochs(settings.epochs)
        if any(epoch < settings.warm_epochs for epoch in self._replan_epochs):
            raise InputError(
                f"bits are chosen after {min(self._replan_epochs)} epochs, but the first {settings.warm_epochs} are in "
                "full precision: choose them later, or warm up for less"
            )
        if settings.flip_rate is not None:
            self._check_flips()
        self.problem = self._given
        """Under the plan of the current stage."""

    @property
    def change_plans(self) -> bool:
        """Whether there are several, each with parameters of its own."""
        return self._replanning is not None or bool(self._plans)

    @property
    def last_change(self) -> int:
        """The epochs that are over when the last stage begins."""
        return max([self._settings.warm_epochs, *self._replan_epochs, *self._plans])

    def begin(self) -> None:
        """With the first one."""
        if self._plans:
            self.problem = self._given.under_plan(next(iter(self._plans.values())))

    def go_on(self, checkpoint: dict[str, Any], source: str) -> None:
        """From the stage of a checkpoint; raises InputError, which names the source, if it is not one of these."""
        self.problem = with_state(self._given, checkpoint, source)
        if not self._plans:
            return
        plan = self.problem.net.only_plan("train with progressive bits")
        started = [plan for start, plan in self._plans.items() if start < checkpoint["epoch"]]
        expected = started[-1] if started else next(iter(self._plans.values()))
        if plan != expected:
            raise InputError(
                f"{source} is under the plan {plan.name!r}, and of {self._settings.epochs} epochs this one would be "
                f"under {expected.name!r}: continue progressive bits with the epochs that they were begun with"
            )

    def enter(self, epoch: int, validation: Batches) -> tuple[bool, dict[str, Any]]:
        """Change what is trained, if it is time to; returns whether it was, and what the epoch's entry is to say."""
        before, notes = self.problem, {}
        ends_warm_up = 0 < epoch == self._settings.warm_epochs
        if ends_warm_up:
            start_views(self.problem.net)
        if epoch in self._plans:
            self._lower(self._plans[epoch])
        if epoch in self._replan_epochs:
            notes["bits_chosen_by"] = self._replan(validation)
        return ends_warm_up or self.problem is not before, notes

    def trained(self, epoch: int) -> Problem:
        """What an epoch trains: the problem, or full precision alone before it."""
        if epoch < self._settings.warm_epochs:
            return TaskProblem(self.problem.net, self.problem.loss, low=False)
        return self.problem

    def plan(self) -> dict[str, Any]:
        """What checkpoints and metrics say of a plan that is not the one that the problem was given with."""
        if self._replanning is not None:
            return {"plan": self.problem.net.only_plan("spend a budget").as_text()}
        if self.problem is self._given:
            return {}
        plan = self.problem.net.only_plan("train with progressive bits")
        return {"plan": plan.as_text(), "view": plan.name}

    def budget(self) -> dict[str, Any]:
        """What the summary says of a budget."""
        replanning = self._replanning
        if replanning is None:
            return {}
        return {"budget": {"limit": str(replanning.budget), "used": str(replanning.used(self.problem))}}

    def _lower(self, plan: BitPlan) -> None:
        """Go on under a plan of fewer bits; under the last one, with the problem that was given."""
        if self.problem.net.only_plan("train with progressive bits") == plan:
            return
        self.problem = self.problem.under_plan(plan)
        if plan == self._given.net.only_plan("train with progressive bits"):
            self.problem = with_state(self._given, state_of(self.problem), "the state before")

    def _replan(self, validation: Batches) -> str:
        """Choose bits anew, and say what by."""
        assert self._replanning is not None
        assert isinstance(self.problem, Lagrangian)
        replan = self._replanning.choose(self.problem, validation)
        precisions, by = from_first(lambda: (replan.solution.precisions, replan.by))
        plan = self.problem.net.only_plan("spend a budget")
        if any(plan[layer] != precision for layer, precision in precisions.items()):
            self.problem = self.problem.under_plan(BitPlan(MIXED, precisions))
        return by

    def _check_flips(self) -> None:
        if not trains_low(self._given):
            raise InputError("flip_rate is a part of quantised weights, and the problem trains full precision only")
        for plan in self._plans.values() or [next(iter(self._given.net.plans.values()))]:
            check_weights(plan)
