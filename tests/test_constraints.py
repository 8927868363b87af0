import math
from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pdqat import (
    BitPlan,
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    InputError,
    Lagrangian,
    LayerConstraint,
    Network,
    OutputConstraint,
    Precision,
    prepare,
)
from pdqat.constraints import Bound, OutputDistance, Sides, default_tolerance
from pdqat.layers import Distance
from pdqat.layers.recorder import Request
from pdqat.sensitivity.low_layers import output_distance_of

seeds = st.integers(0, 10_000)


def small_net(*bits: str | int | BitPlan, **options: object) -> Network:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("stem", nn.Linear(3, 4))
    model.add_module("body", nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4)))
    model.add_module("tail", nn.Linear(4, 4))
    model.add_module("head", nn.Linear(4, 2))
    return prepare(model, torch.rand(6, 3), bits, **options)  # type: ignore[arg-type]


def noise(seed: int, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


@pytest.mark.parametrize(("bits", "tolerance"), [(1, 1.0), (2, 1 / 3), (4, 1 / 15), (8, 1 / 255), (None, 0.0)])
def test_default_tolerance_is_the_smallest_number_the_bits_hold(bits: int | None, tolerance: float) -> None:
    assert default_tolerance(bits) == tolerance


def test_default_tolerances_follow_each_layers_weight_bits() -> None:
    plan = BitPlan("mixed", {"body.0": Precision(2, 8), "body.2": Precision(4, 1), "tail": Precision(None, 8)})
    net = small_net(plan)
    for distance, power in (("squared", 1), ("absolute", 1), ("relative", 2)):
        assert {bound.name: bound.tolerance for bound in LayerConstraint(distance).resolve(net, plan)} == {
            "mixed/layer/body.0": pytest.approx((1 / 3) ** power),
            "mixed/layer/body.2": pytest.approx((1 / 15) ** power),
        }
    assert OutputConstraint().resolve(net, plan)[0].tolerance == 1.0, "the fewest bits"
    assert BlockConstraint(blocks=["body"]).resolve(net, plan)[0].tolerance == 1.0


@pytest.mark.parametrize(("distance", "power"), [("cross-entropy", 1), ("squared", 1), ("kl", 2)])
def test_the_default_tolerance_of_the_output_is_squared_where_its_distance_is(distance: str, power: int) -> None:
    net = small_net("4")
    (bound,) = OutputConstraint(distance).resolve(net, net.plans["4-bit"])
    assert bound.tolerance == pytest.approx((1 / 15) ** power)


def test_one_tolerance_for_all() -> None:
    net = small_net(2)
    bounds = LayerConstraint(tolerance=0.125).resolve(net, net.plans["2-bit"])
    assert [bound.tolerance for bound in bounds] == [0.125] * 3
    assert OutputConstraint(tolerance=0).resolve(net, net.plans["2-bit"])[0].tolerance == 0


def test_tolerances_by_name_pattern_and_default() -> None:
    net = small_net(2)
    bounds = LayerConstraint("squared", {"body.*": 0.5, "body.2": 0.25}).resolve(net, net.plans["2-bit"])
    assert {bound.where: bound.tolerance for bound in bounds} == {"body.0": 0.5, "body.2": 0.25, "tail": 1 / 3}
    rest = LayerConstraint(tolerance={"tail": 0, "*": 0.1}).resolve(net, net.plans["2-bit"])
    assert {bound.where: bound.tolerance for bound in rest} == {"body.0": 0.1, "body.2": 0.1, "tail": 0}


def test_a_tolerance_for_nothing_is_a_mistake() -> None:
    net = small_net(2)
    with pytest.raises(InputError, match=r"the tolerance for 'boddy' matches no layer; the layers are body\.0"):
        LayerConstraint(tolerance={"boddy": 0.5}).resolve(net, net.plans["2-bit"])


@pytest.mark.parametrize("tolerance", [-0.1, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", ["number", "mapping"])
def test_tolerances_are_not_negative_and_finite(tolerance: float, form: str) -> None:
    given_tolerance = tolerance if form == "number" else {"*": 0.1, "tail": tolerance}
    with pytest.raises(InputError, match=r"a tolerance.* must be zero or more and finite"):
        LayerConstraint(tolerance=given_tolerance)
    with pytest.raises(InputError, match=r"a tolerance.* must be zero or more and finite"):
        BlockConstraint(tolerance=given_tolerance, blocks=["body"])
    if form == "number":
        with pytest.raises(InputError, match="a tolerance must be zero or more and finite"):
            OutputConstraint(tolerance=tolerance)


@pytest.mark.parametrize("tolerance", ["0.1", True, {"tail": None}, {"tail": "0.1"}])
def test_tolerances_are_numbers(tolerance: object) -> None:
    with pytest.raises(InputError, match=r"a tolerance.* must be a number"):
        LayerConstraint(tolerance=tolerance)  # type: ignore[arg-type]


def test_unknown_distances_name_the_known() -> None:
    with pytest.raises(InputError, match="unknown layer distance 'l2'; choose one of squared, absolute, relative"):
        LayerConstraint("l2")
    with pytest.raises(InputError, match="unknown output distance 'mse'; choose one of cross-entropy, kl, squared"):
        OutputConstraint("mse")


def test_layer_constraints_skip_weights_in_full_precision() -> None:
    plan = BitPlan("mixed", {"body.0": Precision(2, 2), "body.2": Precision(None, 2), "tail": Precision(None, None)})
    net = small_net(plan)
    assert [bound.where for bound in LayerConstraint().resolve(net, plan)] == ["body.0"]


def test_channel_constraints_have_a_multiplier_per_output_channel() -> None:
    net = small_net(2)
    lagrangian = Lagrangian(net, F.cross_entropy, [ChannelConstraint()])
    assert {name: len(multipliers) for name, multipliers in lagrangian.duals.named().items()} == {
        "2-bit/channel/body.0": 5,
        "2-bit/channel/body.2": 4,
        "2-bit/channel/tail": 4,
    }


@pytest.mark.parametrize("distance", ["squared", "relative", "absolute"])
def test_a_layers_distance_is_the_mean_of_its_channels(distance: str) -> None:
    net = small_net(2)
    x, y = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
    lagrangian = Lagrangian(net, F.cross_entropy, [LayerConstraint(distance), ChannelConstraint(distance)])
    distances = lagrangian.duals.named(lagrangian.terms(x, y).distances)
    for layer in ("body.0", "body.2", "tail"):
        torch.testing.assert_close(distances[f"2-bit/layer/{layer}"][0], distances[f"2-bit/channel/{layer}"].mean())


def test_the_tolerance_of_the_output_is_one_number() -> None:
    with pytest.raises(InputError, match="the tolerance of the output is one number"):
        OutputConstraint(tolerance={"*": 0.1})  # type: ignore[arg-type]


def test_blocks_are_named_and_exist() -> None:
    net = small_net(2)
    plan = net.plans["2-bit"]
    for wrong_blocks in (5, "body", ()):
        with pytest.raises(InputError, match="needs the names of the blocks in a list"):
            BlockConstraint(blocks=wrong_blocks)  # type: ignore[arg-type]
    for wrong in ("boddy", "", "body.1", "stem"):
        with pytest.raises(InputError, match=f"block '{wrong}' is not a submodule with layers in it"):
            BlockConstraint(blocks=[wrong]).resolve(net, plan)


def test_a_block_must_return_a_tensor() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.layer(x), x

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.pair, self.last = nn.Linear(3, 3), Pair(), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(self.pair(self.first(x))[0])
            return y

    x = torch.rand(4, 3)
    lagrangian = Lagrangian(prepare(Model(), x), F.cross_entropy, [BlockConstraint(blocks=["pair"])])
    with pytest.raises(InputError, match="block 'pair' returns a tuple"):
        lagrangian(x, torch.tensor([0, 1, 0, 1]))


@given(seeds)
def test_output_distances_by_their_definition(seed: int) -> None:
    full, low = noise(seed, 7, 5)
    f, q = full.softmax(1), low.softmax(1)
    cross_entropy = -(f * q.log()).sum(1).mean()
    entropy = -(f * f.log()).sum(1).mean()
    torch.testing.assert_close(OutputDistance.CROSS_ENTROPY.between(full, low), cross_entropy)
    torch.testing.assert_close(OutputDistance.KL.between(full, low), cross_entropy - entropy, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(OutputDistance.SQUARED.between(full, low), ((full - low) ** 2).mean())
    cosines = torch.stack([a @ b / (a.norm() * b.norm()) for a, b in zip(full, low, strict=True)])
    torch.testing.assert_close(OutputDistance.COSINE.between(full, low), 1 - cosines.mean())


@given(seeds)
def test_output_distances_at_equality(seed: int) -> None:
    full, _ = noise(seed, 7, 5)
    f = full.softmax(1)
    assert OutputDistance.KL.between(full, full).item() == pytest.approx(0, abs=1e-6)
    assert OutputDistance.SQUARED.between(full, full).item() == 0
    assert OutputDistance.COSINE.between(full, full * torch.rand(7, 1)).item() == pytest.approx(0, abs=1e-6)
    entropy = -(f * f.log()).sum(1).mean().item()
    assert OutputDistance.CROSS_ENTROPY.between(full, full).item() == pytest.approx(entropy, rel=1e-5)


@given(seeds)
def test_kl_is_never_negative_and_blind_to_a_shift_of_the_logits(seed: int) -> None:
    full, low = noise(seed, 7, 5)
    distance = OutputDistance.KL.between(full, low)
    assert distance.item() > -1e-6
    torch.testing.assert_close(OutputDistance.KL.between(full + 3, low - 2), distance, atol=1e-5, rtol=1e-4)


def test_classes_stand_in_dimension_one() -> None:
    full, low = noise(0, 3, 4, 2, 2)
    pixels = [logits.permute(0, 2, 3, 1).reshape(-1, 4) for logits in (full, low)]
    for distance in (OutputDistance.CROSS_ENTROPY, OutputDistance.KL):
        assert distance.compares_classes
        torch.testing.assert_close(distance.between(full, low), distance.between(pixels[0], pixels[1]))


def test_embeddings_are_held_together_by_their_angle() -> None:
    """Neither loss nor target has to say anything of classes, and rankings and plans measure the same distance."""
    net, (x, y) = small_net(4), noise(0, 6, 3)
    problem = Lagrangian(net, lambda output, _: output.square().mean(), [OutputConstraint("cosine"), LayerConstraint()])
    problem(x, y).backward()
    with torch.no_grad(), net.under("4-bit"):
        low = net(x)
    problem.eval()
    with torch.no_grad():
        full, distances = net(x), problem.terms(x, y).distances
    torch.testing.assert_close(distances[0], 1 - F.cosine_similarity(full, low).mean())
    assert problem.bounds[0].tolerance == pytest.approx(1 / 15**2), "it goes by the squares of errors"
    assert output_distance_of(problem, full, y)(full, 2 * full).item() == pytest.approx(0, abs=1e-6)


@given(seeds, st.sampled_from([(6, 3), (4, 3, 5), (2, 3, 4, 4)]))
def test_distances_per_channel_by_their_definition(seed: int, shape: tuple[int, ...]) -> None:
    full, low = noise(seed, *shape)
    for channel in range(3):
        a, b = full[:, channel], low[:, channel]
        squared = ((a - b) ** 2).mean()
        expected = {
            Distance.SQUARED: squared,
            Distance.ABSOLUTE: (a - b).abs().mean(),
            Distance.RELATIVE: squared / (((a - a.mean()) ** 2).mean() + 1e-5),
        }
        for distance, value in expected.items():
            torch.testing.assert_close(distance.per_channel(full, low, 1)[channel], value)


@pytest.mark.parametrize("distance", list(Distance))
def test_distances_vanish_at_equality_and_channels_may_stand_anywhere(distance: Distance) -> None:
    full, low = noise(1, 4, 6, 3)
    assert not distance.per_channel(full, full, 1).any()
    moved = distance.per_channel(full.movedim(1, 2), low.movedim(1, 2), -1)
    torch.testing.assert_close(moved, distance.per_channel(full, low, 1))


def test_relative_distance_is_blind_to_the_channels_size() -> None:
    full, low = noise(2, 50, 3)
    size = torch.tensor([0.1, 1.0, 100.0])
    before = Distance.RELATIVE.per_channel(full, low, 1)
    torch.testing.assert_close(Distance.RELATIVE.per_channel(full * size, low * size, 1), before, rtol=5e-3, atol=0)


def test_distances_of_half_precision_activations_are_taken_in_float32() -> None:
    full, low = (activation.bfloat16() for activation in noise(3, 300, 2))
    for distance in Distance:
        per_channel = distance.per_channel(full, low, 1)
        assert per_channel.dtype == torch.float32
        torch.testing.assert_close(per_channel, distance.per_channel(full.float(), low.float(), 1))
    assert OutputDistance.KL.between(full, low).dtype == torch.float32


class Confidence(Constraint):
    """A constraint of one's own at the output: f and f^q are equally sure of their answers."""

    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        return [Bound("confidence", "", plan.name, 0.05, start=0.5)]

    def request(self, net: Network, plan: BitPlan) -> Request | None:
        return None

    def distances(self, bounds: Sequence[Bound], sides: Sides) -> list[Tensor]:
        return [(sides.full.softmax(1).amax(1) - sides.low.softmax(1).amax(1)).abs().mean().view(1)]


class WorstChannel(Constraint):
    """A constraint of one's own inside the network: no channel of a layer is further off than this."""

    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        return [Bound("worst", layer, plan.name, default_tolerance(plan[layer].weight)) for layer in plan.low_layers]

    def request(self, net: Network, plan: BitPlan) -> Request | None:
        return Request(frozenset(plan.low_layers), Distance.SQUARED)

    def distances(self, bounds: Sequence[Bound], sides: Sides) -> list[Tensor]:
        return [sides.recorder.distance(Distance.SQUARED, bound.where).max().view(1) for bound in bounds]


def test_constraints_of_ones_own_stand_beside_others() -> None:
    net = small_net(2)
    x, y = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
    lagrangian = Lagrangian(net, F.cross_entropy, [Confidence(), WorstChannel(), ChannelConstraint("squared")])
    worst = [f"2-bit/worst/{layer}" for layer in ("body.0", "body.2", "tail")]
    assert list(lagrangian.duals.named())[:4] == ["2-bit/confidence", *worst]
    terms = lagrangian.terms(x, y)
    distances = lagrangian.duals.named(terms.distances)
    sure = [terms.outputs[view].softmax(1).max(1).values for view in ("full", "2-bit")]
    torch.testing.assert_close(distances["2-bit/confidence"][0], (sure[0] - sure[1]).abs().mean())
    for name in worst:
        assert distances[name].item() == distances[name.replace("worst", "channel")].max().item()
    slacks = distances["2-bit/confidence"] - 0.05
    torch.testing.assert_close(lagrangian.value(terms), terms.loss + 0.5 * slacks[0])


def test_constraints_of_ones_own_are_trained_and_go_on_under_other_plans() -> None:
    net = small_net(2)
    x, y = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
    lagrangian = Lagrangian(net, F.cross_entropy, [Confidence(), WorstChannel()])
    lagrangian.duals.multipliers.copy_(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    task_only = torch.autograd.grad(lagrangian.terms(x, y).loss, net.layers["tail"].weight)[0]
    whole = torch.autograd.grad(lagrangian(x, y), net.layers["tail"].weight)[0]
    assert not torch.allclose(whole, task_only)
    other = lagrangian.under_plan(BitPlan("mixed", {"tail": Precision(8, 8)}))
    assert [bound.tolerance for bound in other.bounds] == [0.05, 1 / 3, 1 / 3, 1 / 255]
    assert other.duals.multipliers.tolist() == [0.0, 1.0, 2.0, 3.0]


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


class AddsPair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, pair: Pair) -> Tensor:
        y: Tensor = self.left(pair.left) + self.right(pair.right)
        return y


def test_a_block_may_take_a_named_tuple() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.pair, self.last = nn.Linear(3, 4), AddsPair(), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            y: Tensor = self.last(self.pair(Pair(h, h.relu())))
            return y

    x = torch.rand(4, 3)
    lagrangian = Lagrangian(prepare(Model(), x), F.cross_entropy, [BlockConstraint(blocks=["pair"])])
    assert lagrangian(x, torch.tensor([0, 1, 0, 1])).isfinite()
    assert lagrangian.mean_distances().item() > 0


@pytest.mark.parametrize("distance", ["kl", "cross-entropy"])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_outputs_that_are_no_scores_of_classes_are_not_compared_as_such(distance: str, shape: tuple[int, ...]) -> None:
    outputs = torch.rand(shape)
    with pytest.raises(InputError, match=r"are no scores of classes.*use OutputConstraint\('squared'\)"):
        OutputDistance(distance).between(outputs, outputs)
    assert OutputDistance.SQUARED.between(outputs, outputs) == 0
