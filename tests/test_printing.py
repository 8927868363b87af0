"""What print() shows of results: all that a person needs, within 100 columns."""

from collections import OrderedDict
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pdqat import Lagrangian, Precision, allocate, evaluate, fit, prepare, rank
from pdqat.sensitivity import RANKINGS
from small_problems import KINDS, Small, drawn, set_multipliers, small

WIDTH = 100


@pytest.fixture(scope="module")
def given() -> dict[str, Small]:
    return {kind: small(kind) for kind in KINDS}


def lines_of(result: Any) -> list[str]:
    lines = str(result).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)
    assert lines[0]
    assert "…" not in str(result)
    return lines


def row_of(lines: list[str], name: str) -> list[str]:
    """The words of the line that begins with a name."""
    return next(line.split() for line in lines if line.split()[:1] == [name])


@pytest.mark.parametrize("by", RANKINGS)
def test_a_ranking(given: dict[str, Small], by: str) -> None:
    ranking = rank(given["perceptron"].problem, given["perceptron"].batches, by=by)
    lines = lines_of(ranking)
    assert f"layers by {by}" in lines[0]
    headings = next(line.split() for line in lines if line.split()[:1] == ["layer"])
    multiplier = [] if by == "dual" else ["multiplier"]
    rest = ["moved", "off", "distance", "slack", "tolerance", "params", "MACs"]
    assert headings == ["layer", "score", *multiplier, *rest]
    assert [line.split()[0] for line in lines if line.split() and line.split()[0].isdigit()] == list(ranking.scores)
    assert "█" * 10 in str(ranking)
    highest = ranking.layers[0]
    assert f"{highest.score:.2g}" in row_of(lines, highest.layer)
    assert str(highest.parameters) in row_of(lines, highest.layer)
    assert "moved: change of the multiplier over the last 2 epochs" in " ".join(lines)


def test_an_allocation(given: dict[str, Small]) -> None:
    made = given["perceptron"]
    allocation = allocate(made.problem, made.batches, "2.5 bits", by="dual", pin={"3": "w1a8"})
    lines = lines_of(allocation)
    assert lines[0].split() == ["layer", "was", "bits", "weights", "price", "if", "lowered"]
    prices = allocation.offer.prices
    mean = sum(price.within for price in prices.values()) / len(prices)
    marked = f"{mean:.2g}*" if prices["3"].within < mean else f"{prices['3'].within:.2g}"
    assert row_of(lines, "3") == ["3", "2", "w1a8", "120", f"{prices['3'].within:.2g}", marked]
    assert "*: the mean multiplier, for bits that take the layer out of its tolerance" in lines
    for layer in ("6", "9"):
        assert row_of(lines, layer)[1:3] == ["2", str(allocation.precisions[layer])]
    solution = allocation.solution
    assert f"predicted cost {solution.cost:.4g}, using {solution.used} of 2.5 bits" in lines
    assert solution.next_budget is not None
    next_better = f"the next better plan costs {solution.next_cost:.4g} and takes {solution.next_budget.rounded_up()}"
    assert next_better in lines


def test_an_allocation_by_another_ranking_has_one_price_a_layer(given: dict[str, Small]) -> None:
    made = given["perceptron"]
    lines = lines_of(allocate(made.problem, made.batches, "2.5 bits", by="hessian"))
    assert lines[0].split() == ["layer", "was", "bits", "weights", "price"]
    assert not any("*" in line for line in lines)


def test_an_allocation_by_the_loss_has_no_column_of_prices(given: dict[str, Small]) -> None:
    made = given["perceptron"]
    lines = lines_of(allocate(made.problem, made.batches, "2.5 bits", by="loss"))
    assert lines[0].split() == ["layer", "was", "bits", "weights"]


def test_the_best_allocation_names_no_better_one(given: dict[str, Small]) -> None:
    made = given["perceptron"]
    allocation = allocate(made.problem, made.batches, "32 bits", by="dual", bits=[8])
    assert set(allocation.precisions.values()) == {Precision(8, 8)}
    assert "next better" not in str(allocation)


@pytest.mark.parametrize(("kind", "metric"), [("perceptron", "accuracy"), ("regression", "task loss")])
def test_an_evaluation(given: dict[str, Small], kind: str, metric: str) -> None:
    evaluation = evaluate(given[kind].problem, given[kind].batches)
    lines = lines_of(evaluation)
    assert lines[0] == metric
    assert any(line.split() == ["view", "48", "samples"] for line in lines)
    low = evaluation.scores["2-bit"]
    assert row_of(lines, "2-bit") == ["2-bit", f"{100 * low:.2f}%" if metric == "accuracy" else f"{low:.4g}"]
    assert "full precision" in str(evaluation)
    assert "constraints: mean distance <= tolerance" in lines
    for entry in evaluation.constraints:
        row = row_of(lines, entry["where"] or "output")
        assert row[-1] == ("yes" if entry["satisfied"] else "no")
        assert f"{entry['multiplier']:.4f}" in row


def test_an_evaluation_under_a_mixed_plan_shows_the_bits(given: dict[str, Small]) -> None:
    made = given["perceptron"]
    allocation = allocate(made.problem, made.batches, "5 bits", by="dual", pin={"3": "8", "6": "1"})
    lines = lines_of(evaluate(made.problem.under_plan(allocation), made.batches))
    assert row_of(lines, "3")[1] == "8"
    assert row_of(lines, "6")[1] == "1"


def test_a_history() -> None:
    made = small("regression")
    history = fit(
        made.problem,
        made.batches,
        validation=made.batches,
        test=made.batches,
        epochs=2,
        lr=1e-4,
        progress=False,
    )
    lines = lines_of(history)
    assert lines[0] == "task loss"
    assert any(line.split() == ["view", "validation", "test"] for line in lines)
    assert row_of(lines, "2-bit")[1:] == [f"{history.scores['2-bit'][part]:.4g}" for part in ("validation", "test")]
    assert {row_of(lines, where)[-1] for where in ("output", "3", "6", "9")} <= {"yes", "no"}
    epoch = history.summary["chosen_epoch"]
    assert lines[-1].startswith(f"pdqat, model of epoch {epoch} of 2, {history.summary['parameters']:,} parameters, ")


@pytest.mark.parametrize("by", ["dual", "hessian"])
def test_a_ranking_fits_the_columns_that_there_are(
    given: dict[str, Small], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    ranking = rank(given["perceptron"].problem, given["perceptron"].batches, by=by)
    words = sorted(set(str(ranking).split()))
    monkeypatch.setenv("COLUMNS", "60")
    lines = lines_of(ranking)
    assert max(map(len, lines)) <= 60
    assert [word for word in words if word not in str(ranking)] == [word for word in words if set(word) == {"─"}]


def test_long_names_are_shown_in_full() -> None:
    name = "encoder_of_the_left_half_of_the_input_sequence_and_its_attention"
    model = nn.Sequential(OrderedDict({"stem": nn.Linear(4, 4), name: nn.Linear(4, 4), "head": nn.Linear(4, 2)}))
    x, y = drawn(8, 4), torch.arange(8) % 2
    problem = Lagrangian(prepare(model, x, 2), F.cross_entropy)
    set_multipliers(problem)
    allocation = allocate(problem, [(x, y)], "4 bits", by="dual")
    for result in (rank(problem, [(x, y)]), allocation, evaluate(problem, [(x, y)])):
        assert name in str(result)
        assert "…" not in str(result)
