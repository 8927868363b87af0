import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pdqat import Duals, InputError, Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.constraints import Constraint

CONSTRAINTS = [
    Constraint("output", "", "2-bit", tolerance=0.1, start=1.0),
    Constraint("layer", "conv0", "2-bit", tolerance=0.2),
    Constraint("channel", "conv1", "4-bit", tolerance=0.3, channels=2),
]
finite = st.floats(-10, 10)


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers)


def test_start() -> None:
    assert Duals(CONSTRAINTS).multipliers.tolist() == [1, 0, 0, 0]


def test_ascent_by_hand() -> None:
    duals = Duals(CONSTRAINTS, rate=0.5)
    duals.step(vector(-0.5, 0.25, 1.0, -1.0))
    assert duals.multipliers.tolist() == [0.75, 0.125, 0.5, 0]  # 1 - 0.25, 0.125, 0.5, [-0.5]_+
    duals.step(vector(-2.0, 0.25, -0.5, 0.5))
    assert duals.multipliers.tolist() == [0, 0.25, 0.25, 0.25]  # [0.75 - 1]_+, 0.125 + 0.125, 0.5 - 0.25, 0 + 0.25


def test_nupi_by_hand() -> None:
    """Rate 0.5, damping 2, nu 0.25.

    slack  1      xi = 0.75 x 1                  = 0.75          lambda = 1 + 0.5 + 2 (0.75 - 0)            = 3
    slack  0      xi = 0.25 x 0.75               = 0.1875        lambda = 3 + 0 + 2 (0.1875 - 0.75)         = 1.875
    slack -1      xi = 0.25 x 0.1875 - 0.75      = -0.703125     lambda = 1.875 - 0.5 + 2 (-0.890625) < 0   -> 0
    slack  0.5    xi = 0.25 x -0.703125 + 0.375  = 0.19921875    lambda = 0 + 0.25 + 2 (0.90234375)         = 2.0546875
    """
    duals = Duals(CONSTRAINTS[:1], rate=0.5, rule="nupi", damping=2, nu=0.25)
    found = []
    for slack in (1.0, 0.0, -1.0, 0.5):
        duals.step(vector(slack))
        found.append(duals.multipliers.item())
    assert found == [3, 1.875, 0, 2.0546875]


def test_multiplicative_by_hand() -> None:
    """Rate 0.5; tolerances 0.1, 0.2, 0.3, 0.3.

    distances 0.4, 0.8, 0.3, 0       1 x 4^0.5 = 2    0.001 x 4^0.5 = 0.002     0.001 x 1^0.5 -> 0    0.001 x 0^0.5 -> 0
    distances 0.1, 0.2/9, 2.7, 1.2   2                0.002 x (1/9)^0.5 -> 0    0.001 x 9^0.5         0.001 x 4^0.5
    """
    duals = Duals(CONSTRAINTS, rate=0.5, rule="multiplicative")
    tolerances = vector(0.1, 0.2, 0.3, 0.3)
    duals.step(vector(0.4, 0.8, 0.3, 0.0) - tolerances)
    torch.testing.assert_close(duals.multipliers, vector(2, 0.002, 0, 0))
    duals.step(vector(0.1, 0.2 / 9, 2.7, 1.2) - tolerances)
    torch.testing.assert_close(duals.multipliers, vector(2, 0, 0.003, 0.002))


@pytest.mark.parametrize(("rule", "rate"), [("ascent", 2.0), ("multiplicative", 0.5)])
def test_rules_find_the_multiplier_of_a_problem_with_a_known_answer(rule: str, rate: float) -> None:
    """Least (x - 1)^2 / 2 such that x^2 / 2 <= 1/8: x = 1/2, and (x - 1) + lambda x = 0 makes lambda 1."""
    tolerance = 1 / 8
    duals = Duals([Constraint("layer", "x", "2-bit", tolerance)], rate, rule)
    for _ in range(60):
        x = 1 / (1 + duals.multipliers)  # the best x for this multiplier
        duals.step(x**2 / 2 - tolerance)
    assert duals.multipliers.item() == pytest.approx(1, rel=1e-4)


@given(st.floats(0.01, 100), st.floats(0.01, 1))
def test_a_multiplicative_step_falls_as_far_as_it_rises(ratio: float, rate: float) -> None:
    duals = Duals(CONSTRAINTS[:1], rate, "multiplicative")
    for distance in (0.1 * ratio, 0.1 / ratio):
        duals.step(vector(distance - 0.1))
    assert duals.multipliers.item() == pytest.approx(1, rel=1e-2)


@pytest.mark.parametrize(("rule", "rate"), [("ascent", 0.01), ("nupi", 0.01), ("multiplicative", 0.5)])
def test_each_rule_has_its_own_rate(rule: str, rate: float) -> None:
    by_default, named = Duals(CONSTRAINTS, rule=rule), Duals(CONSTRAINTS, rate, rule)
    for duals in (by_default, named):
        duals.step(vector(0.3, 0.2, -0.1, 0.4))
    assert torch.equal(by_default.multipliers, named.multipliers)
    assert not torch.equal(by_default.multipliers, Duals(CONSTRAINTS).multipliers), "it moves"


def test_multiplicative_needs_a_tolerance_to_divide_by() -> None:
    with pytest.raises(InputError, match="needs tolerances above 0, but that of 2-bit/layer/conv0 is 0"):
        Duals([Constraint("layer", "conv0", "2-bit", 0.0)], rule="multiplicative")


def test_a_multiplicative_step_of_a_tolerance_that_tunes_itself_by_hand() -> None:
    """Tolerance 0.1 at price 0.2, so t = 0.5 lambda; distance 0.08, rate 0.5.

    lambda 0 counts as 0.001, t as 0.0005:  0.001 x (0.08 / 0.0005)^0.5     then towards lambda = 0.08 / 0.5
    """
    duals = Duals([Constraint("layer", "conv0", "2-bit", 0.1, price=0.2)], rate=0.5, rule="multiplicative")
    duals.step(0.08 - duals.tolerances)
    assert duals.multipliers.item() == pytest.approx(0.001 * 160**0.5)
    for _ in range(20):
        duals.step(0.08 - duals.tolerances)
    assert duals.multipliers.item() == pytest.approx(0.16, rel=1e-4)
    assert duals.tolerances.item() == pytest.approx(0.08, rel=1e-4)


@given(st.lists(st.tuples(finite, finite, finite, finite), max_size=5), st.floats(0, 5))
def test_multipliers_are_never_negative(slacks: list[tuple[float, ...]], rate: float) -> None:
    for rule in ("ascent", "nupi", "multiplicative"):
        duals = Duals(CONSTRAINTS, rate, rule, damping=0.7, nu=0.3)
        for each in slacks:
            duals.step(vector(*each))
            assert (duals.multipliers >= 0).all()


@given(st.lists(st.tuples(finite, finite, finite, finite), max_size=5))
def test_nupi_without_damping_is_ascent(slacks: list[tuple[float, ...]]) -> None:
    ascent, nupi = Duals(CONSTRAINTS, 0.3), Duals(CONSTRAINTS, 0.3, "nupi", damping=0, nu=0.5)
    for each in slacks:
        ascent.step(vector(*each))
        nupi.step(vector(*each))
    assert torch.equal(ascent.multipliers, nupi.multipliers)


def test_names_in_order() -> None:
    duals = Duals(CONSTRAINTS)
    duals.multipliers.copy_(vector(1, 2, 3, 4))
    assert {name: each.tolist() for name, each in duals.named().items()} == {
        "2-bit/output": [1],
        "2-bit/layer/conv0": [2],
        "4-bit/channel/conv1": [3, 4],
    }
    assert list(duals.named()) == [each.name for each in CONSTRAINTS]
    assert duals.named(vector(5, 6, 7, 8))["4-bit/channel/conv1"].tolist() == [7, 8]


def test_optimisers_do_not_see_multipliers() -> None:
    assert list(Duals(CONSTRAINTS).parameters()) == []


def test_a_reloaded_nupi_goes_on_as_if_nothing_happened(tmp_path: Path) -> None:
    options = {"rate": 0.5, "rule": "nupi", "damping": 2.0, "nu": 0.25}
    before, after = (Duals(CONSTRAINTS, **options) for _ in range(2))  # type: ignore[arg-type]
    before.step(vector(0.3, 0.2, -0.1, 0.4))
    torch.save(before.state_dict(), tmp_path / "duals.pt")
    after.load_state_dict(torch.load(tmp_path / "duals.pt", weights_only=True))
    for duals in (before, after):
        duals.step(vector(0.1, -0.2, 0.5, 0.1))
    assert torch.equal(before.multipliers, after.multipliers)


@pytest.mark.parametrize(
    "others",
    [
        CONSTRAINTS[:2],
        [CONSTRAINTS[1], CONSTRAINTS[0], CONSTRAINTS[2]],
        [*CONSTRAINTS[:2], Constraint("channel", "conv9", "4-bit", tolerance=0.3, channels=2)],
        [*CONSTRAINTS[:2], Constraint("channel", "conv1", "8-bit", tolerance=0.3, channels=2)],
    ],
    ids=["fewer", "another order", "another layer", "another plan"],
)
def test_multipliers_of_another_problem_are_refused(others: list[Constraint]) -> None:
    state = Duals(others).state_dict()
    with pytest.raises(InputError, match="the multipliers are of another problem: they belong to 2-bit/"):
        Duals(CONSTRAINTS).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": -0.1}, "the dual rate must be zero or more and finite, not -0.1"),
        ({"rate": math.nan}, "the dual rate must be zero or more and finite, not nan"),
        ({"rate": math.inf}, "the dual rate must be zero or more and finite, not inf"),
        ({"damping": -1.0}, "the nuPI damping must be zero or more and finite"),
        ({"nu": 1.0}, "nu must be from 0 to below 1"),
        ({"nu": -0.1}, "nu must be from 0 to below 1"),
        ({"nu": math.nan}, "nu must be from 0 to below 1"),
        ({"rule": "adam"}, "unknown dual rule 'adam'"),
    ],
)
def test_settings_out_of_range(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Duals(CONSTRAINTS, **options)  # type: ignore[arg-type]


def regression_lagrangian(bits: int = 2) -> Lagrangian:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)).double()
    net = prepare(model, torch.rand(4, 3, dtype=torch.float64), bits)
    constraints = [OutputConstraint("squared", 0.01), LayerConstraint("squared", 0.001)]
    return Lagrangian(net, F.mse_loss, constraints, dual_rate=2.0)


def batches(*sizes: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(5)
    shapes = [((size, 3), (size, 2)) for size in sizes]
    return [tuple(torch.rand(s, generator=generator, dtype=torch.float64) for s in pair) for pair in shapes]  # type: ignore[misc]


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
