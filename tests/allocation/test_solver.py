"""Both ways of solving, by the list of all choices near the bound and by HiGHS, against brute force."""

import itertools
import os
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from pdqat.allocation.search import MOST, SAME
from pdqat.allocation.solver import Solver

numbers = st.integers(0, 30) | st.integers(0, 10**6)


@st.composite
def programs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of up to three options, one or two objectives, one or two limits that not every choice keeps."""
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    options = sum(counts)
    objectives, limited = (
        np.array([[float(draw(numbers)) for _ in range(options)] for _ in range(draw(st.integers(1, 2)))])
        for _ in range(2)
    )
    member = np.repeat(np.arange(len(counts)), counts)
    groups = np.array([member == group for group in range(len(counts))], dtype=float)
    limit = draw(st.floats(0.2, 1.2)) * limited.max(1, keepdims=True) * len(counts)
    return groups, objectives, limited / np.maximum(limit, 1e-3)


def brute_force(groups: np.ndarray, objectives: np.ndarray, limited: np.ndarray) -> float | None:
    """The least of the largest objective of any choice that fits."""
    choices = [list(choice) for choice in itertools.product(*(np.flatnonzero(group) for group in groups))]
    fitting = [choice for choice in choices if (limited[:, choice].sum(1) <= 1 + SAME).all()]
    return min((float(objectives[:, choice].sum(1).max()) for choice in fitting), default=None)


@pytest.mark.parametrize("most_listed", [0, MOST], ids=["by HiGHS", "by a list"])
@given(program=programs())
def test_it_is_the_least_of_all_that_fit(most_listed: int, program: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    groups, objectives, limited = program
    least = brute_force(groups, objectives, limited)
    taken = Solver(groups, most_listed).least(objectives, limited)
    if least is None or taken is None:
        assert taken is None
        assert least is None
        return
    assert (groups @ taken == 1).all()
    assert (limited[:, taken].sum(1) <= 1 + 2 * SAME).all()
    assert float(objectives[:, taken].sum(1).max()) == pytest.approx(least, rel=1e-6, abs=1e-9)


@given(program=programs())
def test_a_choice_that_is_known_changes_nothing(program: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    groups, objectives, limited = program
    solver = Solver(groups)
    best = solver.least(objectives, limited)
    if best is not None:
        again = solver.least(objectives, limited, best)
        assert again is not None
        assert objectives[:, again].sum(1).max() == pytest.approx(objectives[:, best].sum(1).max(), rel=1e-9)


@pytest.mark.parametrize("budgets", [1, 2])
def test_both_ways_agree_on_many_groups(budgets: int) -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.eye(40), 6, axis=1)
    sizes, bits = random.integers(100, 10_000, (budgets, 40, 1)), 2.0 ** np.arange(6)
    uses = (sizes * bits).reshape(budgets, -1)
    costs = (random.lognormal(0, 1.5, (40, 1)) / bits**2).reshape(1, -1)
    limited = uses / (6 * sizes.sum((1, 2))[:, None])
    listed, solved = (Solver(groups, most).least(costs, limited) for most in (MOST, 0))
    assert listed is not None
    assert solved is not None
    assert costs[0, listed].sum() == pytest.approx(costs[0, solved].sum(), rel=2e-6)


def test_what_highs_prints_is_not_shown(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """At times it prints lines of its own development, to the file descriptor itself."""
    solve = scipy.optimize.milp

    def chatting(*arguments: Any, **options: Any) -> Any:
        os.write(1, b"tmpSolver.run()\n")
        return solve(*arguments, **options)

    monkeypatch.setattr(scipy.optimize, "milp", chatting)
    print("before")
    assert Solver(np.ones((1, 2)), 0).least(np.array([[1.0, 2.0]]), np.array([[0.5, 0.5]])) is not None
    print("after")
    assert capfd.readouterr().out == "before\nafter\n"
