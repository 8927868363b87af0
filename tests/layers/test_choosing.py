"""First and last layers by what they are for, and what is said where nothing is left."""

import pytest
import torch
from torch import Tensor, nn

from pdqat import InputError, prepare


class Attention(nn.Module):
    """By hand, with separate projections."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.mixed, self.head = (nn.Linear(4, 4) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        y: Tensor = self.head(torch.relu(self.mixed(scores.softmax(-1) @ self.value(x))))
        return y


def test_all_projections_of_the_input_are_first() -> None:
    net = prepare(Attention(), torch.rand(3, 5, 4))
    assert list(net.layers) == ["mixed"]
    assert {name for name, reason in net.left_alone.items() if reason.startswith("first")} == {"query", "key", "value"}


def test_first_and_last_layers_have_their_own_precision_unless_a_rule_names_them() -> None:
    net = prepare(Attention(), torch.rand(3, 5, 4), 2, ends=8, layers={"key": 4, "value": "full"})
    (plan,) = net.plans.values()
    assert plan.as_text() == {"query": "8", "key": "4", "mixed": "2", "head": "8"}


class Detector(nn.Module):
    """A body that is read by heads and by a neck, whose output is read by one more head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.neck = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
        self.boxes, self.classes, self.coarse = (nn.Conv2d(3, 4, 1) for _ in range(3))
        self.norm = nn.BatchNorm2d(3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = torch.relu(self.norm(self.body(self.stem(image))))
        return self.boxes(features), self.classes(features), self.coarse(self.neck(features))


def test_every_head_is_last() -> None:
    net = prepare(Detector(), torch.rand(2, 3, 6, 6), output=lambda heads: torch.cat(heads, 1))
    assert list(net.layers) == ["body", "neck"]
    assert {name for name, reason in net.left_alone.items() if reason.startswith("last")} == {
        *("boxes", "classes", "coarse"),
    }


def test_what_never_reaches_the_compared_tensor_stays_as_it_is() -> None:
    net = prepare(Detector(), torch.rand(2, 3, 6, 6), output=0)
    assert list(net.layers) == ["body"]
    reason = "without an effect on the output that is compared: full precision unless a rule names it"
    assert {name for name in net.left_alone if net.left_alone[name] == reason} == {"classes", "neck", "coarse"}
    assert net.left_alone["boxes"].startswith("last")


class FrozenBody(nn.Module):
    """A body that is computed without gradients, below layers that are trained."""

    def __init__(self, counts: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
        self.inner, self.middle, self.head = (nn.Linear(4, 4) for _ in range(3))
        self.calls = nn.Parameter(torch.zeros(())) if counts else None

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.body(x)
            if self.calls is not None:
                self.calls.add_(1)
        y: Tensor = self.head(torch.relu(self.middle(self.inner(features) + features)))
        return y


def test_layers_below_no_grad_are_followed() -> None:
    net = prepare(FrozenBody(), torch.rand(5, 4))
    assert list(net.layers) == ["body.2", "inner", "middle"]
    assert net.left_alone["body.0"].startswith("first layer")


def test_where_they_can_not_be_followed_they_say_so_and_a_rule_quantises_them() -> None:
    """What a forward writes into a Parameter it may write without gradients only, which hide what reads what."""
    x = torch.rand(5, 4)
    net = prepare(FrozenBody(counts=True), x, integer_sums=True)
    assert list(net.layers) == ["middle"]
    assert all("under torch.no_grad" in net.left_alone[name] for name in ("body.0", "body.2"))
    assert not net.every_layer["body.2"].sums
    assert list(prepare(FrozenBody(counts=True), x, layers={"body.2": 4}).layers) == ["body.2", "middle"]
    assert list(prepare(FrozenBody(counts=True), x, ends=8).layers) == ["inner", "middle", "head"]


class Residual(nn.Module):
    """A stream that all blocks add to: only the last block adds what nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return x


def test_a_residual_stream_does_not_make_all_layers_last() -> None:
    net = prepare(Residual(), torch.rand(6, 4))
    assert list(net.layers) == ["blocks.0", "blocks.1"]


def test_a_layer_whose_output_is_changed_in_place_is_followed() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(self.middle(self.first(x).relu_()).mul_(2))
            return y

    net = prepare(InPlace(), torch.rand(3, 5, 4))
    assert list(net.layers) == ["middle"]
    assert net.left_alone.keys() == {"first", "last"}


def test_a_rule_names_what_would_stay() -> None:
    net = prepare(Attention(), torch.rand(3, 5, 4), 4, layers={"key": 8, "head": "w4"})
    precisions = {name: str(precision) for name, precision in net.plans["4-bit"].precisions.items()}
    assert precisions == {"key": "8", "mixed": "4", "head": "w4"}


def test_nothing_to_quantise_says_why_by_reason_and_count() -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.towers = nn.ModuleList(nn.Linear(4, 4) for _ in range(9))
            self.unused, self.recurrent = nn.Linear(4, 4), nn.LSTM(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([tower(self.recurrent(x)[0]) for tower in self.towers]).sum(0)

    with pytest.raises(InputError) as refusal:
        prepare(Towers(), torch.rand(6, 4))
    message = str(refusal.value)
    assert message.startswith("the model has nothing to quantise: no layer is left in low precision (")
    assert "9 layers (towers.0, towers.1, towers.2, towers.3, ...): last layer" in message
    assert "unused: not called with the example input" in message
    assert "recurrent: LSTM is recurrent" in message
    assert len(message) < 700


@pytest.mark.parametrize("model", [nn.ReLU(), nn.Sequential()])
def test_a_model_without_parameters_is_refused(model: nn.Module) -> None:
    with pytest.raises(InputError, match="nothing to quantise: it has no parameters"):
        prepare(model, torch.rand(2, 3))


def test_coverage_counts_weights_and_operations() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(16, 3))
    net = prepare(model, torch.rand(5, 1, 6, 6), [2, 4])
    own = 9 * 2 + 2 + 4 + 2 * 4 * 9 + 4 + 48 + 3
    assert net.coverage.of_weights == pytest.approx(72 / own)
    assert net.coverage.of_operations == pytest.approx(72 * 4 / (18 * 16 + 72 * 4 + 48))
    shown = str(net.coverage)
    assert f"1 layer is quantised: {72 / own:.2%} of the weights" in shown
    assert "first layer: full precision unless a rule names it" in shown
    tied = prepare(net.restore(), torch.rand(5, 1, 6, 6), tied_norms=True)
    assert tied.coverage.of_weights == pytest.approx(72 / own)


class Recurrent(nn.Module):
    """Steps that stay in full precision, a hidden layer and a head."""

    def __init__(self, steps: nn.Module) -> None:
        super().__init__()
        self.steps, self.hidden, self.head = steps, nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        made = self.steps(x)
        y: Tensor = self.head(torch.relu(self.hidden(made[0][:, -1] if isinstance(made, tuple) else made)))
        return y


@pytest.mark.parametrize(
    ("steps", "example"),
    [
        (nn.GRU(3, 4, batch_first=True), torch.rand(3, 5, 3)),
        (nn.LSTM(3, 4, batch_first=True), torch.rand(3, 5, 3)),
        (nn.EmbeddingBag(9, 4), torch.randint(9, (3, 5))),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_reads_a_layer_that_can_not_be_quantised_is_not_first(steps: nn.Module, example: Tensor) -> None:
    net = prepare(Recurrent(steps), example)
    assert list(net.layers) == ["hidden"]
    assert list(net.left_alone) == ["steps", "head"]


def test_what_such_a_layer_reads_is_not_last() -> None:
    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.hidden, self.steps = nn.Linear(3, 4), nn.Linear(4, 4), nn.GRU(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.steps(self.hidden(torch.relu(self.stem(x))))[0]
            return y

    assert list(prepare(Projected(), torch.rand(3, 5, 3)).layers) == ["hidden"]


class Frozen(nn.Module):
    """A body that is computed without gradients."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.stem, self.body, self.hidden, self.head = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(torch.relu(self.hidden(self.features(x))))
        return y

    def features(self, x: Tensor) -> Tensor:
        if self.how == "detach":
            return torch.relu(self.body(torch.relu(self.stem(x)))).detach()
        with torch.no_grad():
            if self.how == "write":
                self.stem.weight.clamp_(-1, 1)
            return torch.relu(self.body(torch.relu(self.stem(x))))


@pytest.mark.parametrize("how", ["no_grad", "detach"])
def test_layers_without_gradients_are_followed_too(how: str) -> None:
    net = prepare(Frozen(how), torch.rand(3, 4))
    assert list(net.layers) == ["body", "hidden"]
    assert list(net.left_alone) == ["stem", "head"]
    assert torch.is_grad_enabled()


def test_a_forward_may_write_into_its_parameters() -> None:
    assert "hidden" in prepare(Frozen("write"), torch.rand(3, 4), layers={"hidden": 2}).layers


def test_a_shared_weight_counts_once() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(4)))
    model[1].weight = model[2].weight
    coverage = prepare(model, torch.rand(3, 4)).coverage
    assert coverage.of_weights == 16 / 48
    assert coverage.of_operations == 32 / 64


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, about itself
def test_a_compiled_model_is_refused() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    with pytest.raises(InputError, match="compiled or scripted; give the module that it was made of"):
        prepare(torch.compile(model), torch.rand(2, 4))  # type: ignore[arg-type]
