from pathlib import Path
from typing import Any

import pytest
import torch

from multipliers_by_hand import BOUNDS, batches, regression_lagrangian, vector
from pdqat import (
    Ascent,
    InputError,
    NuPI,
)
from pdqat.constraints import Bound
from pdqat.duals import Duals


def test_start() -> None:
    assert Duals(BOUNDS).multipliers.tolist() == [1, 0, 0, 0]


def test_names_in_order() -> None:
    duals = Duals(BOUNDS)
    duals.multipliers.copy_(vector(1, 2, 3, 4))
    assert {name: multipliers.tolist() for name, multipliers in duals.named().items()} == {
        "2-bit/output": [1],
        "2-bit/layer/conv0": [2],
        "4-bit/channel/conv1": [3, 4],
    }
    assert list(duals.named()) == [bound.name for bound in BOUNDS]
    assert duals.named(vector(5, 6, 7, 8))["4-bit/channel/conv1"].tolist() == [7, 8]


def test_optimisers_do_not_see_multipliers() -> None:
    assert list(Duals(BOUNDS).parameters()) == []


def test_a_reloaded_nupi_goes_on_as_if_nothing_happened(tmp_path: Path) -> None:
    before, after = (Duals(BOUNDS, NuPI(0.5, damping=2.0, nu=0.25)) for _ in range(2))
    before.step(vector(0.3, 0.2, -0.1, 0.4))
    torch.save(before.state_dict(), tmp_path / "duals.pt")
    after.load_state_dict(torch.load(tmp_path / "duals.pt", weights_only=True))
    for duals in (before, after):
        duals.step(vector(0.1, -0.2, 0.5, 0.1))
    assert torch.equal(before.multipliers, after.multipliers)


@pytest.mark.parametrize(
    "others",
    [
        BOUNDS[:2],
        [BOUNDS[1], BOUNDS[0], BOUNDS[2]],
        [*BOUNDS[:2], Bound("channel", "conv9", "4-bit", tolerance=0.3, channels=2)],
        [*BOUNDS[:2], Bound("channel", "conv1", "8-bit", tolerance=0.3, channels=2)],
    ],
    ids=["fewer", "another order", "another layer", "another plan"],
)
def test_multipliers_of_another_problem_are_refused(others: list[Bound]) -> None:
    state = Duals(others).state_dict()
    with pytest.raises(InputError, match="the multipliers are of another problem: they belong to 2-bit/"):
        Duals(BOUNDS).load_state_dict(state)


def test_another_plans_duals_take_over_by_kind_and_place() -> None:
    """With their memory, channel by channel; what was not constrained there starts as always."""
    rule = NuPI(0.5, damping=2.0)
    before = Duals(BOUNDS, rule)
    before.step(vector(0.3, 0.2, 0.1, 0.4))
    after = Duals(
        [
            Bound("channel", "conv1", "mixed", tolerance=0.5, channels=2),
            Bound("layer", "conv9", "mixed", tolerance=0.5, start=0.25),
            Bound("layer", "conv0", "mixed", tolerance=0.5),
            Bound("output", "", "mixed", tolerance=0.1, start=1.0),
        ],
        rule,
    )
    after.take_over(before.state_dict())
    for key, start in (("multipliers", 0.25), ("smoothed", 0.0)):
        output, layer, *channels = getattr(before, key).tolist()
        assert getattr(after, key).tolist() == [*channels, start, layer, output]


def test_nothing_is_taken_over_from_duals_of_another_shape() -> None:
    """Other channel counts, an older state that does not say them, and no state at all."""
    before = Duals(BOUNDS, Ascent(1.0))
    before.step(vector(0.3, 0.2, 0.1, 0.4))
    wider = Duals([Bound("channel", "conv1", "mixed", tolerance=0.5, channels=3)])
    wider.take_over(before.state_dict())
    assert wider.multipliers.tolist() == [0, 0, 0]
    older = before.state_dict()
    older["_extra_state"] = {"names": older["_extra_state"]["names"]}
    states: tuple[dict[str, Any], ...] = (older, {})
    for state in states:
        fresh = Duals(BOUNDS)
        fresh.take_over(state)
        assert fresh.multipliers.tolist() == [1, 0, 0, 0]


def test_dual_step_averages_over_samples_of_unequal_batches() -> None:
    lagrangian = regression_lagrangian()
    data = batches(7, 2, 1)
    distances = [lagrangian.terms(x, y).distances.detach() for x, y in data]
    mean = (7 * distances[0] + 2 * distances[1] + distances[2]) / 10
    tolerances = torch.tensor([0.01, 0.001], dtype=torch.float64)
    for x, y in data:
        lagrangian(x, y)
    slacks = lagrangian.dual_step()
    torch.testing.assert_close(slacks, mean - tolerances)
    expected = torch.tensor([1.0, 0.0], dtype=torch.float64) + 2 * (mean - tolerances)
    torch.testing.assert_close(lagrangian.duals.multipliers, expected.clamp(min=0))


def test_dual_step_forgets_what_it_has_used() -> None:
    lagrangian = regression_lagrangian()
    (first, second) = batches(4, 6)
    lagrangian(*first)
    lagrangian.dual_step()
    assert lagrangian.samples.item() == 0
    assert lagrangian.distance_sum.tolist() == [0, 0]
    lagrangian(*second)
    fresh = lagrangian.terms(*second).distances.detach()
    torch.testing.assert_close(lagrangian.mean_distances(), fresh)


def test_evaluation_leaves_the_running_slacks_alone() -> None:
    lagrangian = regression_lagrangian()
    (first, second) = batches(4, 6)
    lagrangian(*first)
    before = lagrangian.mean_distances()
    lagrangian.eval()(*second)
    assert torch.equal(lagrangian.mean_distances(), before)


def test_a_run_goes_on_from_a_file_as_if_nothing_happened(tmp_path: Path) -> None:
    """Saved between two dual steps: weights, multipliers and the running slacks all come back."""
    before, after = regression_lagrangian(), regression_lagrangian()
    first, second = batches(4, 6)
    before(*first)
    before.dual_step()
    before(*second)
    torch.save(before.state_dict(), tmp_path / "state.pt")
    after.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(before.dual_step(), after.dual_step())
    assert torch.equal(before.duals.multipliers, after.duals.multipliers)
    assert torch.equal(before(*first), after(*first))


def test_a_run_under_another_plan_refuses_the_multipliers() -> None:
    four = regression_lagrangian(bits=4)
    two = {key.replace("2-bit", "4-bit"): value for key, value in regression_lagrangian().state_dict().items()}
    with pytest.raises(InputError, match="they belong to 2-bit/output, 2-bit/layer/1; the constraints here are 4-bit"):
        four.load_state_dict(two)
