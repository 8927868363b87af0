"""What verification accepts and refuses, on the reference's own codes with wrong ones planted among them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

from deployed_networks import Own, deployable, frozen, images, labelled, residual, samples, standard, trained_like
from pdqat import InputError, prepare
from pdqat.deployment.agreement import LayerAgreement
from pdqat.deployment.bounds.reference import code_makers
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.integer.frozen import Frozen
from pdqat.deployment.integer.names import INPUT, OUTPUT
from pdqat.deployment.verify import Opened, Verified, verify
from pdqat.deployment.witness import CodesSession

Alter = Callable[[str, Tensor], None]


class Planting(fx.Interpreter):
    """The reference, its codes and output altered on the way."""

    def __init__(self, module: fx.GraphModule, alter: Alter) -> None:
        super().__init__(module)
        self._alter, self._makers = alter, code_makers(module)
        self.outputs: dict[str, np.ndarray] = {}

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = super().call_module(target, args, kwargs)
        if target in self._makers:
            self._alter(str(target), made)
            self.outputs[f"codes/{target}"] = made.numpy()
        return made


class Runtime:
    """One that computes what the reference does, but for what is planted."""

    def __init__(self, found: Frozen, alter: Alter) -> None:
        self._module, self._alter, self.inputs = found.module, alter, [INPUT]

    @torch.no_grad()
    def run(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        computing = Planting(self._module, self._alter)
        output = computing.run(torch.from_numpy(inputs[INPUT])).clone()
        self._alter(OUTPUT, output)
        return {**computing.outputs, OUTPUT: output.numpy()}


def nothing(_: str, __: Tensor) -> None:
    pass


def verified(
    model: Deployable, batches: list[tuple[Tensor, Any]], in_codes: Alter = nothing, in_file: Alter | None = None
) -> Verified:
    """Alter codes, and the file that shows none in the same way or in another."""
    seen = CodesSession(Runtime(model.frozen, in_codes), model.frozen)
    opened = Opened("a runtime", Runtime(model.frozen, in_codes if in_file is None else in_file), seen)
    return verify(model, [opened], batches)[0]


@pytest.fixture(scope="module")
def vectors() -> Deployable:
    """A small network of vectors, whose last two classes always win, the very last one by the smallest step."""
    torch.manual_seed(0)
    last = nn.Linear(12, 4)
    with torch.no_grad():
        last.weight[2:] = 0
        last.bias[2:] = torch.tensor([64.0, 64.0 + 2.0**-17])
    layers = [nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Hardtanh(0, 1), nn.Linear(12, 12), nn.ReLU()]
    net = trained_like(prepare(nn.Sequential(*layers, last), samples(32, 6), 4, quantizer="dorefa"), 0, (6,))
    return Deployable.of(net, None, samples(2, 6))


def only(name: str, alter: Callable[[Tensor], object]) -> Alter:
    def altered(operation: str, made: Tensor) -> None:
        if operation == name:
            alter(made)

    return altered


def last_integers(model: Deployable) -> str:
    """The last operation that makes codes from integers."""
    module = model.frozen.module
    return [name for name in code_makers(module) if hasattr(module.get_submodule(name), "exact")][-1]


def test_the_reference_passes_its_own_verification() -> None:
    model = residual("2")
    result = verified(model, labelled(model.net, images(16)))
    assert result.passes
    assert result.codes.exact.count > 10_000
    assert result.codes.exact.different == result.codes.edge.count == 0
    assert result.outputs.count == result.images == 16
    assert result.codes.simulated.count > 10_000
    assert set(result.layers.values()) == {1.0}


def test_one_wrong_code_in_an_exact_channel_fails() -> None:
    model = residual("2")

    def plant(codes: Tensor) -> None:
        codes[0, 3].view(-1)[0] += 1

    result = verified(model, labelled(model.net, images(4)), only(last_integers(model), plant))
    assert (result.codes.exact.different, result.codes.exact.unexplained) == (1, 1)
    assert not result.passes


@pytest.mark.parametrize(("by", "near_edge"), [(2, True), (1, False)])
def test_a_wrong_code_in_an_inexact_channel_fails_unless_it_lies_on_an_edge(by: int, near_edge: bool) -> None:
    model = residual("8")
    module = model.frozen.module
    name = next(
        name
        for name in code_makers(module)
        if hasattr(module.get_submodule(name), "exact") and not bool(module.get_submodule(name).exact.all())  # type: ignore[operator]
    )
    exact = module.get_submodule(name).exact
    assert isinstance(exact, Tensor)
    channel = int(torch.nonzero(~exact)[0])

    def plant(codes: Tensor) -> None:
        codes[:, channel] += torch.where(codes[:, channel] > 0, -by, by)

    codes = verified(model, labelled(model.net, images(4)), only(name, plant)).codes
    assert codes.edge.different > 0
    assert codes.edge.unexplained == codes.edge.different if near_edge else codes.edge.unexplained > 0
    assert codes.exact.unexplained == 0


def test_a_reference_that_is_not_the_simulated_model_fails() -> None:
    """The file computes as the reference does: only the simulated model can tell."""
    torch.manual_seed(0)
    model = deployable(trained_like(prepare(Own(8, 1, 3), images(), 2, quantizer="uniform"), 0))
    operation = model.frozen.module.get_submodule(dict(model.frozen.reads)["conv1"])
    assert isinstance(operation.offset, Tensor)
    operation.offset += 10**6
    result = verified(model, labelled(model.net, images(16)))
    assert result.codes.exact.unexplained == result.codes.edge.unexplained == 0
    assert result.codes.simulated.unexplained > 0
    assert not result.passes
    assert result.layers["conv0"] == 1
    assert result.layers["conv1"] < 1


def swap(image: int) -> Alter:
    """The best class's score for the worst one's."""

    def alter(output: Tensor) -> None:
        if len(output) > image:
            row = output[image]
            best, worst = int(row.argmax()), int(row.argmin())
            row[best], row[worst] = float(row[worst]), float(row[best])

    return only(OUTPUT, alter)


@pytest.mark.parametrize("count", [3, 300, 700])
def test_a_wrong_choice_fails_among_any_number_of_images(vectors: Deployable, count: int) -> None:
    x = samples(count, 6)
    result = verified(vectors, labelled(vectors.net, x), in_file=swap(count - 1))
    assert result.choices is not None
    assert (result.choices.count, result.choices.differing, result.choices.unexplained) == (count, 1, 1)
    assert result.choices.moved > 10 * result.choices.bound
    assert result.codes.unexplained == 0
    assert result.outputs.unexplained == 1
    assert result.agreement == 1 - 1 / count
    assert not result.passes


def test_a_tie_that_rounding_decides_is_accepted(vectors: Deployable) -> None:
    def other_way(output: Tensor) -> None:
        output[:, 2:] = output[:, 2:].flip(1)

    result = verified(vectors, [(samples(1, 6), torch.tensor([3]))], in_file=only(OUTPUT, other_way))
    assert result.choices is not None
    assert (result.choices.differing, result.choices.unexplained) == (1, 0)
    assert 0 < result.choices.moved < result.choices.bound < 1e-3
    assert (result.accuracy, result.simulated_accuracy) == (0, 1)
    assert result.passes


def test_a_file_may_take_another_side_of_an_edge_than_the_codes_that_are_seen() -> None:
    """An input on the edge of two codes: both files are right."""
    torch.manual_seed(0)
    layers = [nn.Linear(1, 1, bias=False), nn.Linear(1, 4), nn.Linear(4, 2)]
    nn.init.ones_(layers[0].weight)
    net = prepare(nn.Sequential(*layers), torch.rand(4, 1), 2, quantizer="dorefa").eval()
    model, x = Deployable.of(net, None, torch.rand(2, 1)), torch.full((1, 1), 0.5)
    first = code_makers(model.frozen.module)[0]
    other = only(first, lambda codes: codes.copy_(3 - codes))  # 0.5 x 3 is 1.5: 1 or 2
    result = verified(model, [(x, None)], in_file=other)
    assert (result.outputs.different, result.outputs.unexplained) == (1, 0)
    assert result.passes
    further = only(first, lambda codes: codes.copy_(codes * 0))
    assert not verified(model, [(x, None)], in_file=further).passes


@pytest.mark.parametrize("width", [1, 3])
def test_targets_that_are_no_classes_are_compared_by_outputs(width: int) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, width)]
    net = trained_like(prepare(nn.Sequential(*layers), samples(8, 6), 4, quantizer="uniform"), 0, (6,))
    model, x = Deployable.of(net, None, samples(2, 6)), samples(600, 6)
    batches: list[tuple[Tensor, Any]] = [(x, torch.rand(600, width))]
    result = verified(model, batches)
    assert result.passes
    assert result.choices is None
    assert (result.agreement, result.accuracy, result.simulated_accuracy) == (None, None, None)
    assert result.outputs.count >= 500
    for wrong in (0.1, torch.nan):

        def plant(output: Tensor, wrong: float = wrong) -> None:
            output[-1] += wrong

        refused = verified(model, batches, in_file=only(OUTPUT, plant))
        assert refused.outputs.unexplained == 1
        assert not refused.passes


def test_targets_of_one_class_are_no_choice(vectors: Deployable) -> None:
    for target in (torch.rand(8), torch.zeros(8, 2, dtype=torch.long), None, {"boxes": 1}):
        assert verified(vectors, [(samples(8, 6), target)]).choices is None


def test_choices_may_be_one_for_every_position() -> None:
    torch.manual_seed(0)
    layers = [nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Conv1d(4, 4, 1), nn.ReLU(), nn.Conv1d(4, 3, 1)]
    net = prepare(nn.Sequential(*layers), samples(8, 2, 9), 2, quantizer="uniform").eval()
    model, x = Deployable.of(net, None, samples(2, 2, 9)), samples(8, 2, 9)
    result = verified(model, labelled(net, x))
    assert result.choices is not None
    assert (result.choices.count, result.accuracy) == (8 * 7, 1)
    wrong = verified(model, labelled(net, x), in_file=only(OUTPUT, lambda output: output[0, :, 0].mul_(-3)))
    assert wrong.choices is not None
    assert (wrong.choices.differing, wrong.choices.unexplained) == (1, 1)


def test_batches_are_needed(vectors: Deployable) -> None:
    with pytest.raises(InputError, match="there is no batch to verify the file on"):
        verified(vectors, [])
    with pytest.raises(InputError, match="a file reads tensors of samples, not a dict"):
        verified(vectors, [({}, None)])  # type: ignore[list-item]


@pytest.mark.parametrize("bits", ["1", "2"])
@pytest.mark.parametrize("architecture", [residual, standard])
def test_layers_read_the_codes_of_the_simulated_model(architecture: Callable[[str], Deployable], bits: str) -> None:
    model = architecture(bits)
    agreement = LayerAgreement(model)
    agreement.add(images(40))
    assert set(agreement.parts) == set(model.plan.low_layers)
    assert min(agreement.parts.values()) > 0.99


def test_a_layer_that_is_called_twice_is_compared_twice() -> None:
    class Twice(Own):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(self.norm0(self.first(x)))
            x = self.conv0(self.norm1(self.conv0(x)).clamp(0, 1))
            y: Tensor = self.last(self.hidden1(self.hidden0(x.mean((2, 3)))))
            return y

    torch.manual_seed(0)
    net = trained_like(prepare(Twice(4, 1, 3), images(), 2, quantizer="uniform"), 0)
    assert [layer for layer, _ in frozen(net).reads] == ["conv0", "conv0", "hidden0", "hidden1"]
    result = verified(deployable(net), labelled(net, images(16)))
    assert set(result.layers) == {"conv0", "hidden0", "hidden1"}
    assert result.passes
