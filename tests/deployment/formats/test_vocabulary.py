"""Every function of the vocabulary, in files: both runtimes and torch lie in the span, at another number of samples."""

import pytest
import torch
from torch import Tensor, fx, nn

from graphs_of_functions import File, Together, exported, symbolic
from pdqat.deployment.bounds.real import BOUNDED, RealSpans
from pdqat.deployment.bounds.span import Span
from pdqat.deployment.formats.onnx_functions import KNOWN, unknown_calls
from pdqat.deployment.formats.onnx_graph import GraphWriter
from pdqat.errors import InputError
from vocabulary import FAMILIES

WIDE = 1e-3
"""How wide a span of known inputs may be, relative to its largest number."""
RADII = (1e-4, 0.2)
"""How far inputs are moved."""


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_files_compute_what_torch_does(family: str) -> None:
    functions, shapes, trace, modules = FAMILIES[family]
    torch.manual_seed(0)
    module = Together(functions, modules).eval()
    example, inputs = (tuple(torch.randn(count, *shape) for shape in shapes) for count in (3, 5))
    for graph in [exported(module, example), *([symbolic(module)] if trace else [])]:
        assert unknown_calls(graph) == []
        file, known = File(graph, example), RealSpans(graph).run(*inputs)
        check(module, file, known, inputs)
        for name, span in known.items():
            wide = float(span.width.max()) / max(float(span.size.max()), 1e-3)
            assert wide <= WIDE, (name, wide)
        for radius in RADII if family != "whole" else ():
            spans = RealSpans(graph).run(*(Span(x.double() - radius, x.double() + radius) for x in inputs))
            check(module, file, spans, tuple(x + 0.999 * radius * (2 * torch.rand_like(x) - 1) for x in inputs))


def check(module: nn.Module, file: File, spans: dict[str, Span], inputs: tuple[Tensor, ...]) -> None:
    """Whether all that compute them lie in the spans."""
    results = {"torch": module(*inputs), "float64": module.double()(*(x.double() for x in inputs)), **file.run(inputs)}
    module.float()
    for maker, made in results.items():
        for name, span in spans.items():
            assert made[name].shape == span.low.shape, (name, maker)
            outside = torch.maximum(span.low - made[name], made[name] - span.high)
            assert span.holds(made[name]).all(), (name, maker, float(outside.max()))


def graph_of(function: object) -> fx.GraphModule:
    return symbolic(Together({"made": function}))  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.cdist(x, x), "the function cdist can't be written"),
        (lambda x: torch.max(x, 1)[1], "the places of the largest"),
        (lambda x: x.pow(x), "a power that is not one constant"),
        (lambda x: torch.linalg.vector_norm(x, 3, dim=1), "a norm of order 3"),
        (lambda x: torch.split(x, 2)[0], "a split of the samples"),
    ],
)
def test_what_cant_be_written_is_named(function: object, message: str) -> None:
    x = torch.rand(4, 5)
    with pytest.raises(InputError, match=message):
        GraphWriter(graph_of(function), (x,)).model()


def test_unknown_functions_are_found_before_anything_is_written() -> None:
    graph = graph_of(lambda x: torch.erfinv(x * torch.zeros(x.shape[1]).cumprod(0)))
    assert [node.name for node in unknown_calls(graph)] == ["erfinv"]  # constants need no function


def test_what_is_read_after_a_change_in_place_is_refused() -> None:
    class Changed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 1
            return y.mul_(2) + y

    with pytest.raises(InputError, match="in place"):
        GraphWriter(fx.symbolic_trace(Changed()), torch.rand(2, 3)).model()


def test_inputs_and_outputs_keep_names_and_types() -> None:
    class Looked(nn.Module):
        def forward(self, numbers: Tensor, mask: Tensor, scale: Tensor) -> dict[str, Tensor]:
            rows = nn.functional.embedding(numbers, torch.arange(12.0).view(4, 3))
            return {"rows": rows * mask[..., None] * scale, "hidden": ~mask}

    graph = fx.symbolic_trace(Looked())
    example = torch.tensor([[0, 1], [2, 3]]), torch.tensor([[True, False], [True, True]]), torch.tensor([[[0.5]]])
    inputs = torch.tensor([[3, 1]] * 3), torch.tensor([[False, True]] * 3), torch.tensor([[[2.0]]])
    made = File(graph, example).run(inputs)
    spans = RealSpans(graph).run(*inputs)
    for results in made.values():
        assert results["rows"].tolist() == [[[0, 0, 0], [6, 8, 10]]] * 3
        assert spans["rows"].holds(results["rows"]).all()
        assert results["hidden"].tolist() == spans["hidden"].tolist() == [[True, False]] * 3


def test_a_model_of_one_input_and_output_has_plain_names() -> None:
    model = GraphWriter(fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.GELU())), torch.rand(2, 3)).model()
    assert [described.name for described in (*model.graph.input, *model.graph.output)] == ["input", "output"]


def test_writer_and_bounds_know_the_same_functions() -> None:
    assert set(KNOWN) - BOUNDED == set()
    assert BOUNDED - set(KNOWN) == {"full_like", "ones_like", "zeros_like", "new_full", "new_ones", "new_zeros"}
