"""Spans: hand-worked ends, and that they hold what float32 makes in any order of its sums."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from deployed_networks import Own, deployable, images, trained_like
from pdqat import prepare
from pdqat.deployment.bounds.real import RealSpans, normalized, span_of_function, span_of_module
from pdqat.deployment.bounds.reference import ReferenceSpans
from pdqat.deployment.bounds.simulated import SimulatedSpans
from pdqat.deployment.bounds.span import (
    SINGLE,
    UNIT,
    Span,
    average,
    difference,
    elementwise_product,
    line,
    product,
    total,
    units_of_sum,
)
from pdqat.deployment.integer.operations import RequantizedProduct, ToCodes
from pdqat.deployment.integer.sum_operations import SumsToCodes
from pdqat.errors import InputError
from pdqat.quantizers import SCHEMES


def span(low: float, high: float) -> Span:
    return Span(torch.tensor([[low]], dtype=torch.float64), torch.tensor([[high]], dtype=torch.float64))


def ends(result: Span) -> tuple[float, float]:
    return float(result.low), float(result.high)


def test_a_sum_is_off_by_its_terms_or_by_their_root() -> None:
    assert units_of_sum(9) == 9
    assert units_of_sum(256) == 256
    assert units_of_sum(1024) == 16 * 32


def test_a_product_reaches_as_far_as_its_weights_and_rounding() -> None:
    weight, bias = torch.tensor([[2.0, -3.0]]), torch.tensor([1.0])
    given_span = Span(torch.tensor([[1.0, 2.0]]).double(), torch.tensor([[2.0, 4.0]]).double())
    result = product(given_span, weight, bias, nn.functional.linear)
    # From 2 - 12 + 1 to 4 - 6 + 1; sizes 2 x 2 + 3 x 4 + 1, two terms and eight more units.
    error = (2 + SINGLE) * UNIT * 17
    assert ends(result) == pytest.approx((-9 - error, -1 + error), abs=1e-12)


def test_a_falling_line_swaps_the_ends() -> None:
    result = line(span(1, 2), torch.tensor(-2.0).double(), torch.tensor(1.0).double(), torch.tensor(5.0).double())
    error = SINGLE * UNIT * (2 * 2 + 5)
    assert ends(result) == pytest.approx((-3 - error, -1 + error), abs=1e-12)


def test_sums_differences_and_products_of_two() -> None:
    assert ends(total(span(1, 2), span(-3, 5))) == pytest.approx((-2 - 2 * UNIT, 7 + 7 * UNIT), abs=1e-12)
    assert ends(difference(span(1, 2), span(-3, 5))) == pytest.approx((-4 - 4 * UNIT, 5 + 5 * UNIT), abs=1e-12)
    assert ends(elementwise_product(span(-1, 2), span(-3, 5))) == pytest.approx((-6, 10), abs=1e-5)


def test_whole_numbers_are_added_without_an_error() -> None:
    whole = Span.of(torch.tensor([[3]]), whole=True)
    assert ends(total(whole, whole)) == (6, 6)


def test_an_average_of_many_has_the_error_of_its_sum() -> None:
    result = average(Span.of(torch.ones(1, 1, 32, 32)), lambda end: end.mean((2, 3)))
    assert ends(result) == pytest.approx((1 - 520 * UNIT, 1 + 520 * UNIT), abs=1e-12)


def test_a_function_without_bounds_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="erfinv has no bounds"):
        span_of_function(torch.erfinv, "erfinv", (span(0.0, 0.5),), {})


def test_sizes_and_parts_are_no_spans() -> None:
    given_span = Span.of(torch.arange(6.0).view(2, 3))
    assert span_of_function(Tensor.size, "size", (given_span, 0), {}) == 2
    first, second = span_of_function(torch.chunk, "chunk", (given_span, 3), {"dim": 1})[:2]
    assert (first.low.tolist(), second.high.tolist()) == ([[0], [3]], [[1], [4]])


def one_channel(multiplier: float, offset: int, exact: bool) -> RequantizedProduct:
    line_of = torch.tensor([multiplier]), torch.tensor([offset], dtype=torch.int32)
    is_exact, most_off = torch.tensor([exact]), torch.zeros(1)
    return RequantizedProduct(torch.tensor([[1]]), {}, True, *line_of, is_exact, most_off, 0, 15, is_summand=False)


def reference_span(operation: nn.Module, codes: list[float]) -> ReferenceSpans:
    graph = torch.fx.Graph()
    made = graph.call_module("operation", (graph.placeholder("x"),))
    graph.output(made)
    module = torch.fx.GraphModule({"operation": operation}, graph)
    reference = ReferenceSpans(module, {"operation": torch.tensor([[codes[1]]])})
    reference.run(torch.tensor([[float(codes[0])]]))
    return reference


@pytest.mark.parametrize(
    ("sum_", "code", "exact", "explained"),
    [
        (4, 4, True, True),  # 4 + 0.25 rounds to 4
        (4, 5, True, False),
        (4, 5, False, False),  # far from an edge
        (1, 1, True, True),
    ],
)
def test_codes_of_integers_are_explained_by_the_line(sum_: int, code: int, exact: bool, explained: bool) -> None:
    codes = reference_span(one_channel(1.0625, 0, exact), [sum_, code]).codes
    assert codes.unexplained == (not explained)


def test_on_an_edge_an_inexact_channel_may_take_either_code() -> None:
    """0.5 x (4 + 1) is 2.5."""
    for code, explained in ((2, True), (3, True), (1, False), (4, False)):
        assert reference_span(one_channel(0.5, 1, False), [4, code]).codes.unexplained == (not explained)
        assert reference_span(one_channel(0.5, 1, True), [4, code]).codes.unexplained == (code != 2)


def test_sums_and_real_numbers_on_an_edge() -> None:
    slope, shift, exact = torch.tensor([-0.5]), torch.tensor([4.5]), torch.tensor([False])
    sums = SumsToCodes(slope, shift, exact, torch.zeros(1), 0, 0, 15, False)
    for code, explained in ((2, True), (3, True), (4, False)):
        assert reference_span(sums, [4, code]).codes.unexplained == (not explained)
        assert reference_span(ToCodes(1.0, 0.5, 0, 15, False), [1.25, code]).codes.unexplained == (not explained)
    assert reference_span(ToCodes(1.0, 0.5, 0, 15, False), [1.26, 2]).codes.unexplained == 1


def any_order(layer: nn.Conv2d, x: Tensor, seed: int) -> Tensor:
    """A convolution in float32 whose terms are added one by one, in an order of their own."""
    generator = np.random.default_rng(seed)
    columns = nn.functional.unfold(x, layer.kernel_size, padding=1)
    weight = layer.weight.detach().flatten(1)
    shuffled = torch.from_numpy(generator.permutation(weight.shape[1]))
    result = torch.zeros(len(x), len(weight), columns.shape[2])
    for term in shuffled:
        result = result + weight[None, :, term, None] * columns[:, term, None]
    assert layer.bias is not None
    return (result + layer.bias[None, :, None]).view(len(x), len(weight), *x.shape[2:])


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e3), st.booleans())
def test_convolutions_in_any_order_lie_between_the_ends(seed: int, size: float, narrow: bool) -> None:
    torch.manual_seed(seed)
    layer, norm = nn.Conv2d(1 if narrow else 40, 3, 3, padding=1), nn.BatchNorm2d(3)
    for tensor in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
        assert tensor is not None
        nn.init.uniform_(tensor, 0.01, 2)
    x = size * torch.randn(2, layer.in_channels, 5, 5)
    known = span_of_module(layer, (Span.of(x),), {})
    for order_seed in (seed, seed + 1):
        made = any_order(layer, x, order_seed)
        assert known.holds(made).all()
        assert normalized(norm.eval(), known).holds(norm(made).detach()).all()
    assert (known.width <= 2 * (units_of_sum(layer.weight[0].numel()) + SINGLE) * UNIT * 10 * size * 40).all()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0, 0.5))
def test_inputs_between_ends_give_outputs_between_ends(seed: int, radius: float) -> None:
    torch.manual_seed(seed)
    layers = [
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 2)),
        *(nn.Hardtanh(-1, 1), nn.LeakyReLU(), nn.AvgPool2d(2, 1), nn.SiLU(), nn.Flatten(), nn.Linear(16, 3)),
    ]
    module = torch.fx.symbolic_trace(nn.Sequential(*layers).eval())
    x = torch.randn(3, 2, 8, 8)

    class Around(RealSpans):
        def placeholder(self, target: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Span:
            return Span(x.double() - radius, x.double() + radius)

    result = Around(module).run(x)
    for _ in range(5):
        moved = x + radius * (2 * torch.rand_like(x) - 1) * 0.999
        assert result.holds(module(moved).detach()).all()
        assert result.holds(copy.deepcopy(module).double()(moved.double()).detach()).all()


@settings(max_examples=12)
@given(
    st.integers(0, 10**6),
    st.integers(1, 8),
    st.sampled_from(sorted(set(SCHEMES) - {"dorefa", "dorefa-unscaled", "dorefa-lsq"})),
    st.sampled_from([(4, 1), (8, 2)]),
)
def test_both_models_lie_between_the_ends_from_the_image_on(
    seed: int, bits: int, quantizer: str, shape: tuple[int, int]
) -> None:
    """The simulated model, in float32 and in float64, and the integer reference."""
    torch.manual_seed(seed)
    net = trained_like(prepare(Own(*shape, 3), images(), bits, quantizer=quantizer), seed)
    model, x = deployable(net), images(6)
    with torch.no_grad():
        known = SimulatedSpans(model.followed.module, model.plan, model.most_off).run(x)
        assert known.holds(model.simulated(x)).all()
        assert known.holds(model.frozen.module(x)).all()
        own = SimulatedSpans(model.followed.module, model.plan).run(x)
        assert own.holds(model.simulated(x)).all()
        double = copy.deepcopy(model.net).double()
        with double.under(model.plan):
            assert own.holds(double(x.double())).all()
