"""The whole trade-off."""

import io
import json
from pathlib import Path

import pytest

from pdqat.allocation.frontier import frontier
from pdqat.allocation.frontier_file import write_frontier
from pdqat.allocation.measure import measure_under
from pdqat.allocation.offer import offer
from pdqat.errors import InputError
from pdqat.precision import BitPlan
from pdqat.terminal import PlainConsole
from small_problems import same_state, small, state


@pytest.mark.parametrize("quantizer", ["dorefa", "uniform"])
def test_it_goes_from_the_smallest_plan_to_the_largest(quantizer: str) -> None:
    made = small(quantizer=quantizer)
    before = state(made.problem)
    offered = offer(made.problem, made.batches, by="dual")
    points = frontier(made.problem, offered, made.batches, made.batches)
    bits = [point.average_bits for point in points]
    costs = [point.solution.cost for point in points]
    assert bits == sorted(set(bits))
    assert costs == sorted(costs, reverse=True)
    assert bits[0] == 1
    assert len(points) > 3
    assert sum(amount <= 4 for amount in bits) > len(bits) / 2, "closer together where each bit matters more"
    weights = sum(size.parameters for size in offered.sizes.values())
    assert [point.kilobytes for point in points] == pytest.approx([amount * weights / 8000 for amount in bits])
    for point in (points[0], points[-1]):
        plan = BitPlan("mixed", point.solution.precisions)
        assert point.score == measure_under(made.problem, plan, made.batches, made.batches).scores["mixed"]
        assert point.metric.name == "accuracy"
    assert same_state(state(made.problem), before)


def test_pinned_and_excluded_layers_stay() -> None:
    made = small()
    offered = offer(made.problem, made.batches, by="dual", pin={"6": 4}, exclude=["9"])
    points = frontier(made.problem, offered, made.batches, made.batches)
    assert {str(point.solution.precisions["6"]) for point in points} == {"4"}
    assert all("9" not in point.solution.precisions for point in points)


@pytest.mark.parametrize(("kind", "name"), [("perceptron", "accuracy"), ("regression", "task_loss")])
def test_it_is_written_as_table_json_and_pictures(tmp_path: Path, kind: str, name: str) -> None:
    made = small(kind)
    points = frontier(
        made.problem, offer(made.problem, made.batches, by="dual", bits=[2, 4]), made.batches, made.batches
    )
    written = io.StringIO()
    path = tmp_path / "frontier.json"
    write_frontier(points, path, PlainConsole(file=written, width=100))
    content = json.loads(path.read_text())
    assert [entry[name] for entry in content] == [point.score for point in points]
    assert content[0]["layers"] == {"3": "2", "6": "2", "9": "2"}
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in path.with_suffix(".svg").read_text()
    assert f"{name} without training" in written.getvalue()
    assert ("%" in written.getvalue()) is (name == "accuracy")


def test_batches_that_end_after_one_pass_are_refused() -> None:
    made = small()
    offered, once = offer(made.problem, made.batches, by="dual"), iter(list(made.batches))
    with pytest.raises(InputError, match="training is a list_iterator, which ends after one pass"):
        frontier(made.problem, offered, once, made.batches)
    with pytest.raises(InputError, match="batches is a list_iterator, which ends after one pass"):
        frontier(made.problem, offered, made.batches, once)
