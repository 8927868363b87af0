"""How far runtimes are from functions of single numbers, and the rules of spans behind them, by hand."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from graphs_of_functions import File, Together, symbolic
from pdqat.deployment.bounds.elementwise import RISING, TANH_VALLEY, VALLEYS
from pdqat.deployment.bounds.masks import where
from pdqat.deployment.bounds.norms import layer_norm
from pdqat.deployment.bounds.products import attention, matmul
from pdqat.deployment.bounds.real import span_of_function
from pdqat.deployment.bounds.span import UNIT, Span
from pdqat.deployment.bounds.sums import softmax, summed
from pdqat.errors import InputError

MEASURED = 2.0
"""Every error that was measured is taken at least so many times."""
MEASURED_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(F, name, None) or getattr(torch, name) for name in (*RISING, *VALLEYS) if name != "abs"
}


def grid(name: str) -> Tensor:
    """Dense, where the function bends; small and large numbers on both sides."""
    sizes = torch.logspace(-6, 1.9, 20000)
    numbers = torch.cat([-sizes, sizes, torch.linspace(-8, 8, 60000)]).sort().values
    return (numbers.abs() if name in ("log", "sqrt") else numbers)[None]


@torch.no_grad()
def test_runtimes_are_as_near_as_bounds_say() -> None:
    """Both runtimes, and torch, on dense grids."""
    for positive in (True, False):
        chosen = {name: made for name, made in MEASURED_FUNCTIONS.items() if positive == (name in ("log", "sqrt"))}
        x = grid("log" if positive else "")
        made = File(symbolic(Together(chosen)), (x,)).run((x,))
        made["torch"] = {name: function(x) for name, function in chosen.items()}
        for name, function in chosen.items():
            exactly = function(x.double())
            error = RISING[name] if name in RISING else VALLEYS[name].error
            allowed = error.relative * exactly.abs() + error.absolute + error.of_input * x.double().abs() + 2.0**-100
            for maker, results in made.items():
                part = float(((results[name] - exactly).abs() / allowed).max())
                assert part <= 1 / MEASURED, (name, maker, part)


@pytest.mark.parametrize("name", [name for name in VALLEYS if name != "abs"])
def test_valleys_are_where_they_are_said_to_be(name: str) -> None:
    place = VALLEYS[name].place
    near = place + torch.linspace(-1e-3, 1e-3, 2001, dtype=torch.float64)
    values = MEASURED_FUNCTIONS[name](near)
    assert float(values.min()) >= float(values[1000]) - 1e-15
    assert float(near[values.argmin()]) == pytest.approx(place, abs=1e-6)


def test_the_valley_of_the_approximated_gelu() -> None:
    near = TANH_VALLEY + torch.linspace(-1e-3, 1e-3, 2001, dtype=torch.float64)
    values = F.gelu(near, approximate="tanh")
    assert float(values.min()) >= float(values[1000]) - 1e-15


def span(low: list[float], high: list[float]) -> Span:
    return Span(torch.tensor([low]).double(), torch.tensor([high]).double())


def ends(result: Span) -> list[list[float]]:
    return [result.low.flatten().tolist(), result.high.flatten().tolist()]


def test_a_softmax_reaches_from_low_among_high_to_high_among_low() -> None:
    low, high = ends(softmax(span([0.0, 0.0], [1.0, 0.0]), 1))
    e = float(torch.tensor(1.0).exp())
    assert low == pytest.approx([0.5, 1 / (1 + e)], abs=1e-5)
    assert high == pytest.approx([e / (1 + e), 0.5], abs=1e-5)


def test_a_layer_norm_is_never_beyond_the_root_of_its_size() -> None:
    low, high = ends(layer_norm(span([-1.0] * 4, [1.0] * 4), [4]))
    assert max(high) <= 2.03
    assert min(low) >= -2.03


def test_a_product_of_spans_by_middles_and_widths() -> None:
    """[1, 3] x [2, 4] reaches to 12; by 2 x 3 and widths from 6 - 2 x 1 - 1 x 4 to 6 + 6."""
    low, high = ends(matmul(span([1.0], [3.0]), span([2.0], [4.0])))
    assert low == pytest.approx([0.0], abs=1e-5)
    assert high == pytest.approx([12.0], abs=1e-5)


def test_attention_stays_among_its_values() -> None:
    queries = Span(torch.full((1, 2, 4), -9.0).double(), torch.full((1, 2, 4), 9.0).double())
    values = Span.of(torch.tensor([[[1.0] * 4, [3.0] * 4]]))
    low, high = ends(attention(queries, queries, values))
    assert min(low) >= 1 - 1e-5
    assert max(high) <= 3 + 1e-5


def test_sums_of_numbers_above_0_stay_there() -> None:
    low, high = ends(summed(span([0.0, 1.0], [100.0, 100.0]), 1))
    assert low == pytest.approx([1.0], abs=4 * UNIT)
    assert high == pytest.approx([200.0], abs=1000 * UNIT)


def test_where_rounding_decides_both_are_possible() -> None:
    unsure = span_of_function(torch.gt, "gt", (span([-1.0, 1.0, -2.0], [1.0, 2.0, -1.0]), 0), {})
    assert ends(unsure) == [[0, 1, 0], [1, 1, 0]]
    assert ends(where(unsure, 5.0, -5.0)) == [[-5, 5, -5], [5, 5, -5]]
    with pytest.raises(InputError, match="rounding can change"):
        span_of_function(Tensor.long, "long", (unsure,), {})
