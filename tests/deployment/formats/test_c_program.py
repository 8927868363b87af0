"""Networks as C: compiled, every code of every layer and every score is the reference's, bit for bit."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn

from c_folders import SANITIZED, check, require
from deployed_networks import IMAGE, Own, frozen, images, residual, samples, standard, trained_like
from pdqat import InputError, Network, prepare
from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.formats.c_program import Program
from pdqat.deployment.formats.c_reference import Ordered
from pdqat.deployment.integer.layers import in_full_precision
from pdqat.deployment.integer.operations import RealProduct, RequantizedProduct, ToCodes, ToReal, WholeScores
from pdqat.deployment.integer.sum_operations import PooledSums

QUICK = ("1", "2", "4", "w1a2", "w1a4", "w2a1", "w4a1", "w8a1", "w8a2")
"""Of which the integer reference is found quickly."""
BITS = (*QUICK, "3", "8", "w1a8", "w2a8", "w4a8", "w8a4")
COPIES = "-O1 -DMODEL_COPIES=1"
"""As for processors with vectors, where every layer has copies of its kernels."""
EVERYWHERE_8 = {"first": "8", "last": "8"}


class Random(nn.Module):
    """A small network of what C can hold: groups, strides, dilations, pooling, residual sums, a concatenation."""

    def __init__(self, draw: Any, widths: Sequence[int]) -> None:
        super().__init__()
        width = draw(st.sampled_from(widths))
        groups = draw(st.sampled_from([1, 2, width]))
        size, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
        self.pooling, self.residual = (
            draw(st.sampled_from(["max", "average", "padded", "parts", "none"])),
            draw(st.booleans()),
        )
        self.flat = draw(st.booleans())
        self.first = nn.Conv2d(3, width, 3, padding=1, bias=draw(st.booleans()))
        self.norm0 = nn.BatchNorm2d(width)
        self.conv0 = nn.Conv2d(width, width, size, stride, draw(st.integers(0, 1)), dilation, groups)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, width, 3, padding="same", dilation=dilation, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Conv2d(width, width, 1) if draw(st.booleans()) else nn.Identity()
        self.hidden = nn.LazyLinear(5)
        self.last = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm0(self.first(x)))
        x = self.norm1(self.conv0(x)).clamp(0, 1)
        y = self.norm2(self.conv1(x))
        x = torch.relu(y + self.shortcut(x)) if self.residual else torch.cat([torch.relu(y), x], 1)
        x = self._pooled(x)
        x = x.flatten(1) if self.flat else x.mean((2, 3))
        scores: Tensor = self.last(torch.relu(self.hidden(x)))
        return scores

    def _pooled(self, x: Tensor) -> Tensor:
        if self.pooling == "max":
            return nn.functional.max_pool2d(x, 3, 2, 1)
        if self.pooling == "average":
            return nn.functional.avg_pool2d(x, (2, 3), 1, 1)
        if self.pooling == "padded":
            return nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        return nn.functional.adaptive_avg_pool2d(x, (2, 3)) if self.pooling == "parts" else x


@st.composite
def networks(draw: Any, widths: Sequence[int], bits: Sequence[str], quickly: bool) -> Network:
    torch.manual_seed(draw(st.integers(0, 1000)))
    model = Random(draw, widths)
    x = samples(8, 3, *draw(st.sampled_from([(5, 5), (6, 7), (8, 5)])))
    with torch.no_grad():
        model(x)  # gives the lazy layer its size
    ends = {} if quickly else draw(st.sampled_from([{}, EVERYWHERE_8, {"first": "w4a8"}]))
    quantizer = draw(st.sampled_from(["uniform", "uniform-channel", "dorefa-int8", "lsq"]))
    whole_sums = not quickly and draw(st.booleans())
    net = prepare(model, x, draw(st.sampled_from(bits)), layers=ends, quantizer=quantizer, integer_sums=whole_sums)
    return trained_like(net, draw(st.integers(0, 1000)), tuple(x.shape[1:]))


def check_network(net: Network, flags: str) -> None:
    try:
        module = frozen(net).module
    except InputError:  # signs of real numbers, in any format
        return
    example = net.example
    assert isinstance(example, Tensor)
    with TemporaryDirectory() as folder:
        check(module, samples(3, *example.shape[1:]), Path(folder) / "c", flags=flags)


@settings(max_examples=4)
@given(networks((4, 10), QUICK, quickly=True))
def test_any_network(net: Network) -> None:
    check_network(net, "-O0")


@pytest.mark.slow
@settings(max_examples=150)
@given(networks((2, 6, 10, 20, 34), BITS, quickly=False))
def test_any_network_with_sanitizers(net: Network) -> None:
    check_network(net, f"-O1 {SANITIZED}")
    check_network(net, f"{COPIES} {SANITIZED}")


@pytest.mark.parametrize("bits", ["1", "2"])
def test_residual_sums_with_projections(bits: str, tmp_path: Path) -> None:
    model = check(residual(bits).frozen.module, images(3), tmp_path / "c")
    kernels = {step.kernel for step in model.program.steps}
    assert "convolve_lines" in kernels
    assert not kernels & {"convolve_bytes", "convolve_columns", "convolve_packed", "convolve_planes"}


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O3", "-O3 -march=native", f"-O2 {SANITIZED}", f"{COPIES} {SANITIZED}"])
@pytest.mark.parametrize("bits", ["1", "2", "4", "8", "w1a4", "w8a2"])
def test_every_compiler(bits: str, flags: str, compiler: str, tmp_path: Path) -> None:
    require(compiler)
    for number, model in enumerate((residual(bits), standard(bits))):
        check(model.frozen.module, images(3), tmp_path / str(number), compiler, flags)


@pytest.mark.parametrize("flags", [COPIES, "-O2 -march=native"])
def test_a_copy_of_the_kernels_for_every_layer(flags: str, tmp_path: Path) -> None:
    check(residual("2").frozen.module, images(3), tmp_path / "planes", flags=flags)
    check(frozen(whole_network("w8a8")).module, images(3), tmp_path / "bytes", flags=flags)


def whole_network(bits: str) -> Network:
    """Whose first and last layers are quantised too."""
    torch.manual_seed(0)
    return trained_like(prepare(Plain(), images(), bits, layers=EVERYWHERE_8, quantizer="uniform"), 1)


class Plain(nn.Module):
    """A chain without a number that is not quantised but for the pooled ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2)
        self.conv = nn.Conv2d(8, 8, 3)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(torch.relu(self.conv(torch.relu(self.first(x)))))
        return y


class Windows(nn.Module):
    """Whose first layer reads bytes of the image and whose second one planes, by windows of one kind."""

    def __init__(self, width: int, **windows: Any) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, **windows)
        self.conv = nn.Conv2d(width, width, **windows)
        self.last = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(torch.relu(self.conv(torch.relu(self.first(x)))).mean((2, 3)))
        return y


BY_ROWS = ["convolve_columns", "convolve_lines"]
ONE_BY_ONE = ["convolve_bytes", "convolve_planes"]


@pytest.mark.parametrize("flags", ["-O1", COPIES])
@pytest.mark.parametrize(
    ("width", "windows", "kernels"),
    [
        (16, {"kernel_size": 3, "padding": 1}, BY_ROWS),
        (34, {"kernel_size": (3, 2), "stride": 2, "padding": (2, 1)}, BY_ROWS),
        (10, {"kernel_size": (4, 3), "stride": (1, 3), "padding": (0, 2)}, BY_ROWS),
        (24, {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (3, 1)}, BY_ROWS),
        (12, {"kernel_size": 3, "dilation": (1, 2), "padding": 2}, ONE_BY_ONE),
        (12, {"kernel_size": 2, "stride": 3, "padding": (0, 2)}, ONE_BY_ONE),
        (40, {"kernel_size": 1, "stride": 2}, [ONE_BY_ONE[0], BY_ROWS[1]]),
    ],
)
@pytest.mark.parametrize("bits", ["1", "2"])
def test_windows_of_every_kind(
    bits: str, width: int, windows: dict[str, Any], kernels: list[str], flags: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    net = prepare(
        Windows(width, **windows), images(), bits, layers=EVERYWHERE_8, quantizer="uniform", integer_sums=True
    )
    module = frozen(trained_like(net, 1)).module
    model = check(module, images(3), tmp_path / "c", flags=f"{flags} {SANITIZED}")
    assert [step.kernel for step in model.program.steps if step.kernel.startswith("convolve")][:2] == kernels


def test_a_vector_is_multiplied_where_it_stands(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(19, 20), nn.ReLU(), nn.Linear(20, 3))
    net = prepare(model, samples(8, 19), "8", layers={"0": "8", "2": "8"}, quantizer="uniform")
    written = check(
        frozen(trained_like(net, 1, (19,))).module, samples(3, 19), tmp_path / "c", flags=f"-O1 {SANITIZED}"
    )
    assert [step.kernel for step in written.program.steps] == ["convolve_columns", "convolve_columns"]
    assert not any(step.seen for step in written.program.steps)


def test_integers_from_the_input_to_the_scores(tmp_path: Path) -> None:
    model = check(frozen(whole_network("2")).module, images(3), tmp_path / "c")
    text, header = (tmp_path / "c" / "model.c").read_text(), (tmp_path / "c" / "model.h").read_text()
    assert "typedef int8_t model_input_t;" in header
    assert "typedef int32_t model_score_t;" in header
    assert model.program.last_product is not None
    kernels = text.split("} convolution;")[1]
    assert "float" not in kernels.replace("by_float32", "")
    assert "double" not in text


def test_scores_in_whole_numbers_are_the_networks_output() -> None:
    net = whole_network("2")
    program = Program(frozen(net).module, (images(2),))
    assert program.last_product is not None
    scores = Ordered(program).scores(images()) * program.last_product.unit
    with torch.no_grad():
        wanted = frozen(net).module(images()).flatten(1).double().numpy()
    assert abs(scores - wanted).max() <= 2e-7 * abs(wanted).max()


def test_a_network_in_full_precision(tmp_path: Path) -> None:
    model = check(in_full_precision(residual("2").followed.module), images(3), tmp_path / "c")
    assert not model.layers
    assert model.footprint.constants > 4 * sum(weight.numel() for weight in Plain().parameters())


def graph_of(module: nn.Module) -> fx.GraphModule:
    return fx.symbolic_trace(module)


class Called(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: torch.tanh(x), "tanh: the function tanh can't be written to C"),
        (lambda x: x + 1, "add: a sum of other than two tensors of one shape can't be written to C"),
        (lambda x: x.mean(1), "mean: a mean over other dimensions than all of the image's can't be written to C"),
        (lambda x: x.flatten(2), "flatten: another shape than one row a sample can't be written to C"),
        (lambda x: x, "a model that gives back its input can't be written to C"),
        (lambda x: (x, x), "a model of more than one input or output can't be written to C"),
        (lambda x: torch.cat([x, x], 2), "cat: a concatenation of other than channels can't be written to C"),
        (
            lambda x: nn.functional.avg_pool2d(x, 2, ceil_mode=True),
            "avg_pool2d: an average with ceil_mode or a divisor of its own can't be written to C",
        ),
        (lambda x: x[:, :, None], "getitem: the function getitem can't be written to C"),
        (lambda x: nn.functional.relu(x[None]), "getitem: the function getitem can't be written to C"),
    ],
)
def test_what_is_refused_is_named(function: Any, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        Program(graph_of(Called(function)), (images(2),))
    assert str(error.value) == sentence


def test_sums_that_32_bits_can_not_hold_are_refused() -> None:
    weight, ones = torch.full((1, 70_000), 127, dtype=torch.int8), torch.ones(1)
    graph = fx.Graph()
    codes = graph.call_module("codes", (graph.placeholder("x"),))
    graph.output(graph.call_module("layer", (graph.call_module("product", (codes,)),)))
    product = RequantizedProduct(weight, {}, True, 1e-6 * ones, 0 * ones.int(), ones.bool(), 0 * ones, 0, 255, False)
    modules = {"codes": ToCodes(1.0, 1.0, 0, 255, False), "product": product, "layer": ToReal(1.0)}
    with pytest.raises(InputError, match="product: sums of so many products can exceed 32 bits"):
        Program(fx.GraphModule(modules, graph), (torch.zeros(2, 70_000),))


def test_real_numbers_that_are_never_stored_are_told_too() -> None:
    graph = fx.Graph()
    made = graph.placeholder("x")
    for name in ("codes", "mean", "real", "again", "layer"):
        made = graph.call_module(name, (made,))
    graph.output(made)
    weight, scores = torch.ones(2, 3, dtype=torch.int8), WholeScores(0, torch.zeros(2, dtype=torch.int32), 1.0)
    modules = {
        "codes": ToCodes(255.0, 1.0, 0, 255, False),
        "mean": PooledSums((2, 3), False, 16),
        "real": ToReal(1 / 16),
        "again": ToCodes(1.0, 1.0, 0, 255, False),
        "layer": RealProduct(weight, {}, True, torch.ones(2), torch.zeros(2), scores),
    }
    real = Model(Program(fx.GraphModule(modules, graph), (torch.zeros(2, 3, 4, 4),))).footprint.real
    assert len(real) == 1
    assert "of real numbers" in real[0]


@pytest.mark.slow
def test_an_own_network(tmp_path: Path) -> None:
    for number, (width, groups, kernel) in enumerate(((8, 1, 3), (8, 8, 2), (12, 4, 1))):
        torch.manual_seed(0)
        net = prepare(Own(width, groups, kernel), images(), {8: "1", 12: "4"}[width], quantizer="dorefa-int8")
        check(frozen(trained_like(net, 1, IMAGE)).module, images(3), tmp_path / str(number))
