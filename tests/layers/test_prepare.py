import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import FULL, BitPlan, InputError, Network, Precision, prepare
from pdqat.quantizers import DoReFaActivation, DoReFaWeight, Quantizer, Scheme

FIRST = "first layer: full precision unless a rule names it"
LAST = "last layer: full precision unless a rule names it"


def chain(count: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count)))


X = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))


def precisions(net: Network) -> dict[str, dict[str, str]]:
    return {name: {layer: str(each) for layer, each in plan.precisions.items()} for name, plan in net.plans.items()}


def test_first_and_last_layer_stay_full() -> None:
    net = prepare(chain(), X)
    assert precisions(net) == {"2-bit": {"1": "2", "2": "2", "3": "2"}}
    assert net.left_alone == {"0": FIRST, "4": LAST}


def test_the_first_layer_is_the_first_one_called() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c, self.b, self.a = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.c(self.b(self.a(x)))
            return y

    net = prepare(Backwards(), X)
    assert list(net.layers) == ["b"]
    assert net.left_alone == {"a": FIRST, "c": LAST}


def test_rules_by_name_pattern_and_default() -> None:
    net = prepare(chain(), X, [2, "w4a8"], layers={"[12]": "8", "2": "full", "4": "w1"})
    assert precisions(net) == {
        "2-bit": {"1": "8", "3": "2", "4": "w1"},
        "w4a8": {"1": "8", "3": "w4a8", "4": "w1"},
    }
    assert net.left_alone == {"0": FIRST, "2": "full precision by rule"}


def test_a_rule_for_all_includes_the_ends() -> None:
    net = prepare(chain(3), X, layers={"*": 4})
    assert precisions(net) == {"2-bit": {"0": "4", "1": "4", "2": "4"}}
    assert net.left_alone == {}


def test_plans_of_ones_own() -> None:
    mixed = BitPlan("mixed", {"1": Precision(2, 4), "3": FULL, "4": Precision(8, 8)})
    net = prepare(chain(), X, [mixed, 3])
    assert precisions(net) == {
        "mixed": {"1": "w2a4", "2": "full", "3": "full", "4": "8"},
        "3-bit": {"1": "3", "2": "3", "3": "3", "4": "full"},
    }


def test_a_plans_full_layers_compute_in_full_precision() -> None:
    net = prepare(chain(4), X, [BitPlan("one", {"1": Precision(2, 2)}), BitPlan("other", {"2": Precision(2, 2)})])
    values: dict[str, tuple[Tensor, Tensor]] = {}

    def remember(name: str, module: nn.Module) -> None:
        def hook(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            values[name] = args[0], output

        module.register_forward_hook(hook)

    for name, layer in net.layers.items():
        remember(name, layer)
    with net.under("one"):
        net(X)
    given, output = values["2"]
    layer = net.layers["2"]
    assert torch.equal(output, nn.functional.linear(given, layer.full_weight(), layer.bias))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": {"7": 2}}, "the layer rule '7' matches no layer; the layers are 0, 1, 2, 3, 4"),
        ({"layers": {"conv*": 2}}, r"the layer rule 'conv\*' matches no layer"),
        ({"layers": {"1": 9}}, "from 1 to 8, not 9"),
        ({"bits": []}, "at least one precision is needed"),
        ({"bits": 0}, "plan '0-bit' gives '1' 0 bits, which only the last layer of a residual branch can have"),
        ({"bits": "full"}, "can't be called 'full'"),
        ({"bits": [2, "w2a2"]}, "each plan needs a name of its own, not 2-bit, 2-bit"),
        ({"bits": BitPlan("p", {"9": Precision(2, 2)})}, "plan 'p' names the layer '9', which the model does not have"),
        ({"bits": BitPlan("p", {"1": FULL})}, "nothing to quantise"),
        ({"bits": BitPlan("update", {"1": Precision(2, 2)})}, "a plan can't be called 'update'"),
        ({"bits": BitPlan("half", {"1": Precision(2, 2)})}, "a plan can't be called 'half'"),
        ({"bits": BitPlan("training", {"1": Precision(2, 2)})}, "a plan can't be called 'training'"),
        ({"layers": {"*": "full"}}, "nothing to quantise"),
        ({"quantizer": "dorfea"}, "unknown quantizer 'dorfea'"),
        ({"example": torch.rand(6, 5)}, r"the model can't process the example input \(shape \(6, 5\)\)"),
        ({"example": (X, X)}, r"can't process the example input \(shape \(6, 4\), shape \(6, 4\)\)"),
    ],
)
def test_what_can_not_be_prepared_is_left_as_it_was(options: dict[str, object], message: str) -> None:
    model = chain()
    model[2].eval()
    model[1].requires_grad_(False)
    before = snapshot(model)
    with pytest.raises(InputError, match=message):
        prepare(model, **{"example": X, **options})  # type: ignore[arg-type]
    assert snapshot(model) == before


def snapshot(model: nn.Module) -> dict[str, object]:
    """Everything that prepare may touch: classes, attributes, modes, hooks, identity and content of the tensors."""
    content: dict[str, object] = {}
    for name, module in model.named_modules():
        content[name] = type(module), {key: value for key, value in vars(module).items() if not key.startswith("_")}
        content[f"{name} hooks"] = list(module._forward_hooks), list(module._forward_pre_hooks)
        content[f"{name} children"] = {key: id(child) for key, child in module.named_children()}
    for name, parameter in model.named_parameters():
        content[f"{name} parameter"] = id(parameter), parameter.requires_grad, parameter.tolist()
    for name, buffer in model.named_buffers():
        content[f"{name} buffer"] = id(buffer), buffer.tolist()
    return content


class Failing(DoReFaActivation):
    def calibrate(self, tensor: Tensor, bits: int) -> None:
        raise RuntimeError("no")


def fail() -> Quantizer:
    raise RuntimeError("no")


@pytest.mark.parametrize("activation", [Failing, fail])
def test_a_quantiser_that_fails_leaves_the_model_as_it_was(activation: type[Quantizer]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].eval()
    before = snapshot(model)
    with pytest.raises(RuntimeError, match="no"):
        prepare(model, X, quantizer=Scheme(DoReFaWeight, activation))
    assert snapshot(model) == before


def test_a_model_with_nothing_to_quantise() -> None:
    for model in (nn.Sequential(nn.ReLU()), nn.Sequential(nn.Linear(4, 4)), chain(2)):
        with pytest.raises(InputError, match="the model has nothing to quantise"):
            prepare(model, X)
    lonely = nn.Sequential(nn.Linear(4, 4))
    assert list(prepare(lonely, X, layers={"0": 2}).layers) == ["0"]


def test_a_prepared_model_is_not_prepared_again() -> None:
    model = chain()
    net = prepare(model, X)
    for again in (model, net, nn.Sequential(model)):
        with pytest.raises(InputError, match="prepared already"):
            prepare(again, X)
    assert prepare(net.restore(), X, 4).plans.keys() == {"4-bit"}


def test_a_model_that_makes_no_numbers_is_refused_and_left_as_it_was() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x - x.mean()) ** 0.5

    model = nn.Sequential(nn.Linear(4, 4), Root(), nn.Linear(4, 4), nn.Linear(4, 4))
    with pytest.raises(InputError, match="'2' is given values that are not numbers or infinite for the example input"):
        prepare(model, torch.rand(8, 4))
    assert type(model[2]) is nn.Linear


def test_layer_rules_are_by_name() -> None:
    with pytest.raises(InputError, match=r"layers are precisions by name or pattern, such as .*, not \['2'\]"):
        prepare(chain(3), X, layers=["2"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the layer rule 2 is no text; layers are called by text, such as '2'"):
        prepare(chain(3), X, layers={2: 8})  # type: ignore[dict-item]


def test_a_model_must_return_one_tensor() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = chain(3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.body(x), x

    with pytest.raises(InputError, match="the model returns a tuple"):
        prepare(Pair(), X)


def test_torchs_encoder_layer_does_not_pass_the_layers_by() -> None:
    """In evaluation without gradients torch would take a fast path that reads the plain weights."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    net = prepare(nn.Sequential(nn.Linear(4, 4), encoder, nn.Linear(4, 4)), torch.rand(2, 3, 4), quantizer="uniform")
    net.eval()
    x = torch.rand(2, 3, 4)
    projections = [f"1.self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
    assert list(net.layers) == [*projections, "1.linear1", "1.linear2"]
    for plan in (None, "2-bit"):
        with net.under(plan):
            slow = net(x)
            with torch.no_grad():
                torch.testing.assert_close(net(x), slow)
    with torch.no_grad():
        full = net(x)
        with net.under("2-bit"):
            assert not torch.allclose(net(x), full)
    assert [each._forward_pre_hooks for each in net.restore().modules() if each._forward_pre_hooks] == []


def test_layers_that_are_none_of_ours_are_named_with_the_reason() -> None:
    class Twice(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:  # noqa: A002
            return super().forward(input) + F.linear(input, self.weight)

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))
            self.scaled, self.unused = Twice(4, 4), nn.Linear(4, 4)
            self.bilinear, self.table = nn.Bilinear(4, 4, 4), nn.Parameter(torch.ones(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            h = self.scaled(self.first(x))
            y: Tensor = self.last(self.middle(self.bilinear(h, h @ self.table)))
            return y

    net = prepare(Mixed(), X)
    assert net.left_alone == {
        "": "Mixed is not a kind of layer that pdqat quantises",
        "scaled": "Twice is a subclass whose forward is not one call of torch's function on its weight and bias; "
        "compute a changed weight by torch.nn.utils.parametrize to have it quantised",
        "bilinear": "Bilinear is not a kind of layer that pdqat quantises",
        "unused": "not called with the example input",
        "first": FIRST,
        "last": LAST,
    }
    assert type(net.model.get_submodule("scaled")) is Twice


def test_modules_and_parameters_stay_the_same_objects() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 4))
    modules, parameters = dict(model.named_modules()), dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    net = prepare(model, X)
    assert net.model is model
    assert all(model.get_submodule(name) is module for name, module in modules.items())
    assert all(model.get_parameter(name) is parameter for name, parameter in parameters.items())
    before = {name: parameter.clone() for name, parameter in parameters.items()}
    net(X).square().sum().backward()
    optimizer.step()  # an optimiser made before prepare still moves the model
    moved = [name for name in before if not torch.equal(before[name], model.get_parameter(name))]
    assert {"0.weight", "1.weight", "2.weight", "3.weight"} <= set(moved)


def test_a_frozen_model_stays_frozen_and_modes_stay() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 4))
    model.requires_grad_(False)
    model[1].eval()
    net = prepare(model, X, quantizer="uniform")
    assert not any(parameter.requires_grad for parameter in net.parameters())
    assert [module.training for module in model] == [True, False, True, True]
    assert not any(view.training for view in net.model.get_submodule("1.views").children())


def test_preparing_leaves_running_statistics_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 4))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    prepare(model, X)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())


def test_layers_called_by_keyword() -> None:
    class Keyword(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(self.middle(input=self.first(x)))
            return y

    assert list(prepare(Keyword(), X).layers) == ["middle"]


def test_models_with_several_inputs() -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = chain(3)

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            y: Tensor = self.body(x * scale)
            return y

    for example in ((X, X), {"x": X, "scale": X}):
        assert list(prepare(Several(), example).layers) == ["body.1"]


def test_the_root_may_be_a_layer() -> None:
    torch.manual_seed(0)
    net = prepare(nn.Linear(4, 4), X, layers={"": 2})
    with net.under("2-bit"):
        low = net(X)
    assert not torch.equal(low, net(X))


@pytest.mark.parametrize(
    ("example", "said"),
    [
        (torch.tensor([[1.0, float("nan")]]), "the example input has values that are not"),
        (torch.empty(0, 2), r"the example input is empty: it has a tensor of shape \(0, 2\)"),
    ],
)
def test_an_example_without_real_inputs_is_refused_and_the_model_stays_plain(example: Tensor, said: str) -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(InputError, match=said):
        prepare(model, example)
    assert {type(layer) for layer in model} == {nn.Linear}
