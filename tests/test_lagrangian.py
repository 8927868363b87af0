"""The Lagrangian against the transcribed equations: the value and the gradient of every parameter, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equations import (
    BLOCKS,
    LAYER_TOLERANCE,
    MODELS,
    OUTPUT_TOLERANCE,
    Chain,
    Setting,
    full_weight,
    low_activation,
    low_weight,
    transcribed,
)
from pdqat import (
    Ascent,
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


def randomised(setting: Setting) -> tuple[Network, Tensor, Tensor]:
    """A prepared network with norms that are far from the identity and differ between views, and a batch."""
    torch.manual_seed(3)
    x, y = torch.randn(6, 2, 5, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 1, 0])
    scheme = "dorefa" if setting.scaled else "dorefa-unscaled"
    net = prepare(MODELS[setting.net]().double(), x, setting.plans, quantizer=scheme, tied_norms=setting.tied)
    for name, parameter in net.model.named_parameters():
        if "norm" in name:
            nn.init.uniform_(parameter, *((0.3, 1.2) if name.endswith("weight") else (-0.2, 0.7)))
    return net, x, y


def rule_of(setting: Setting) -> str:
    """The gradient rule; straight-through, norms follow too, whatever the equations' `norm` says of exact ones."""
    return setting.gradient if setting.norm == "exact" or setting.gradient == "straight-through" else "norms"


def lagrangian_of(setting: Setting, net: Network) -> Lagrangian:
    constraints: list[Constraint] = []
    if setting.output is not None:
        constraints.append(OutputConstraint(setting.output, OUTPUT_TOLERANCE))
    if setting.layer is not None and setting.kind == "block":
        constraints.append(BlockConstraint(setting.layer, LAYER_TOLERANCE, blocks=BLOCKS[setting.net]))
    elif setting.layer is not None:
        kind = ChannelConstraint if setting.kind == "channel" else LayerConstraint
        constraints.append(kind(setting.layer, LAYER_TOLERANCE))
    result = Lagrangian(net, F.cross_entropy, constraints, gradient=rule_of(setting), objective="full")
    torch.nn.init.uniform_(result.duals.multipliers, 0.2, 2.0)
    return result


SETTINGS = [
    # Where and by which distance, in every network, under one plan and under two.
    *(
        Setting(net, plans, layer)
        for net in MODELS
        for plans in ((2,), (2, 4))
        for layer in (None, "squared", "absolute", "relative")
    ),
    # What moves what.
    *(
        Setting(net, (2, 4), layer, gradient=gradient, norm=norm, tied=tied)
        for net in MODELS
        for layer in ("squared", "relative")
        for gradient, norm in (("exact", "exact"), ("exact", "ste"), ("straight-through", "ste"))
        for tied in (False, True)
    ),
    # The other distances, places and weights.
    *(Setting(output=output, norm="ste") for output in ("kl", "squared")),
    *(Setting(net, output=None) for net in MODELS),
    *(Setting(net, (1, 4), layer, "channel") for net in MODELS for layer in ("squared", "absolute", "relative")),
    *(Setting(net, (2, 4), layer, "block") for net in BLOCKS for layer in ("squared", "absolute", "relative")),
    *(Setting("projection", (2,), "squared", "block", norm="ste", tied=tied) for tied in (False, True)),
    *(Setting(net, (1, 8), "squared", scaled=False) for net in MODELS),
]


@pytest.mark.parametrize("setting", dict.fromkeys(SETTINGS), ids=str)
def test_value_and_gradient_are_those_of_the_equations(setting: Setting) -> None:
    net, x, y = randomised(setting)
    lagrangian = lagrangian_of(setting, net).train()
    parameters = dict(net.model.named_parameters())
    expected = transcribed(setting, parameters, lagrangian.duals.named(), x, y)
    value = lagrangian(x, y)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)
    ours, theirs = (
        torch.autograd.grad(result, list(parameters.values()), materialize_grads=True) for result in (value, expected)
    )
    for name, our, their in zip(parameters, ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-6, atol=1e-9, msg=f"the gradients of {name} differ")


def gradients(lagrangian: Lagrangian, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    parameters = dict(lagrangian.net.model.named_parameters())
    values = torch.autograd.grad(lagrangian(x, y), list(parameters.values()), materialize_grads=True)
    return dict(zip(parameters, values, strict=True))


def output_only(setting: Setting, multiplier: float) -> dict[str, Tensor]:
    net, x, y = randomised(setting)
    lagrangian = lagrangian_of(setting, net)
    lagrangian.duals.multipliers.fill_(multiplier)
    return gradients(lagrangian, x, y)


def test_what_each_gradient_rule_moves() -> None:
    """The rules differ in what the output constraint moves through f^q; what it moves through f is the same."""
    exact, norms, through = (
        output_only(Setting("identity", layer=None, gradient=gradient, norm=norm), 1.0)
        for gradient, norm in (("exact", "exact"), ("exact", "ste"), ("straight-through", "ste"))
    )
    conv, early_norm = "blocks.0.conv0.weight", "blocks.0.norm1.views.2-bit.weight"
    assert torch.equal(exact[conv], norms[conv])
    assert not torch.allclose(exact[conv], through[conv])
    assert not exact[early_norm].any()
    assert norms[early_norm].any()
    assert torch.allclose(norms[early_norm], through[early_norm])
    assert exact["norm.views.2-bit.weight"].any()
    assert torch.equal(exact["head.weight"], norms["head.weight"])


def test_no_gradient_of_a_layer_constraint_reaches_the_low_precision_norms() -> None:
    setting = Setting("projection", (2,), "squared", output=None)
    net, x, y = randomised(setting)
    by_name = gradients(lagrangian_of(setting, net), x, y)
    assert not any(gradient.any() for name, gradient in by_name.items() if "views" in name)
    assert by_name["blocks.0.conv0.weight"].any()


@pytest.mark.parametrize("layer", ["relative", "squared", "absolute"])
@pytest.mark.parametrize("output", ["cross-entropy", "kl"])
def test_gradient_agrees_with_finite_differences(layer: str, output: str) -> None:
    """In a chain every layer's input is rounded, so the Lagrangian is smooth in the weights between two roundings.

    The scale mean|w| counts as a constant, so this is about the unscaled quantiser. In the chain's layers without norms
    the bias is a constant in the layer constraints, and so are the norms' affine parts: this is about weights.
    """
    setting = Setting("chain", (2, 4), layer, output=output, scaled=False)
    net, x, y = randomised(setting)
    lagrangian = lagrangian_of(setting, net)
    by_name = gradients(lagrangian, x, y)
    step = 1e-6
    for name, parameter in net.model.named_parameters():
        if parameter.dim() == 1:
            continue
        direction = torch.randn_like(parameter)
        with torch.no_grad():
            parameter.add_(direction, alpha=step)
            above = lagrangian.terms(x, y)
            parameter.add_(direction, alpha=-2 * step)
            below = lagrangian.terms(x, y)
            parameter.add_(direction, alpha=step)
            if name != "fc1.weight":  # nothing was rounded the other way
                for plan in net.plans:
                    torch.testing.assert_close(above.outputs[plan], below.outputs[plan], rtol=0, atol=1e-12)
            slope = (lagrangian.value(above) - lagrangian.value(below)) / (2 * step)
        torch.testing.assert_close((by_name[name] * direction).sum(), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("precision", ["w4", "a2"])
def test_weights_feel_the_exact_gradient_where_norms_follow_straight_through(precision: str) -> None:
    """Weight-only plans round no activation, and an activation-only last layer is behind the last rounding."""

    torch.manual_seed(0)
    x, y = torch.randn(6, 2, 5, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 1, 0])
    net = prepare(Chain().double(), x, precision, layers={"fc1": precision}, quantizer="dorefa-unscaled")
    exact, norms = (
        Lagrangian(net, F.cross_entropy, [OutputConstraint("kl")], gradient=gradient) for gradient in ("exact", "norms")
    )
    ours, theirs = gradients(exact, x, y), gradients(norms, x, y)
    weights = [name for name in ours if "norm" not in name]
    assert len(weights) == 10
    assert all(torch.equal(ours[name], theirs[name]) for name in weights)

    last, direction = net.layers["fc1"].weight, torch.randn(3, 5, dtype=torch.float64)
    with torch.no_grad():
        last.add_(direction, alpha=1e-6)
        above = exact(x, y)
        last.add_(direction, alpha=-2e-6)
        below = exact(x, y)
    torch.testing.assert_close((ours["fc1.weight"] * direction).sum(), (above - below) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("reader", "bits"), [("2", 2), ("a2", 2), ("w2a4", 4), ("a1", 1), ("full", None), ("w2", None)]
)
def test_only_a_reader_that_quantises_activations_clips_and_rounds(reader: str, bits: int | None) -> None:
    """Layer 1 is read by layer 2 directly: compared behind clip(0, 1) if layer 2 clips under this plan."""
    torch.manual_seed(0)
    x = torch.rand(8, 3, dtype=torch.float64)
    layers = [nn.Linear(3, 3, bias=False).double() for _ in range(4)]
    model = nn.Sequential(*layers)
    nn.init.uniform_(layers[1].weight, -3, 3)
    weight = layers[1].weight.detach()
    first = x @ layers[0].weight.detach().T
    plan = BitPlan("mixed", {"1": Precision(2, 2), "2": Precision.parse(reader)})
    lagrangian = Lagrangian(prepare(model, x, plan, quantizer="dorefa"), F.mse_loss, [LayerConstraint("squared", 0.0)])
    z = low_activation(first, 2)
    sides = [z @ w.T for w in (full_weight(weight, True), low_weight(weight, 2, True))]
    full, low = sides if bits is None else (sides[0].clamp(0, 1), low_activation(sides[1], bits))
    distances = lagrangian.duals.named(lagrangian.terms(x, torch.zeros(8, 3)).distances)
    torch.testing.assert_close(distances["mixed/layer/1"][0], ((full - low) ** 2).mean())


def small_net(**options: object) -> Network:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 2))
    return prepare(model, torch.rand(4, 3), **options)  # type: ignore[arg-type]


def test_constraints_by_default_are_output_and_layers() -> None:
    lagrangian = Lagrangian(small_net(bits=[2, 4]), F.cross_entropy)
    assert [bound.name for bound in lagrangian.bounds] == [
        "2-bit/output",
        "2-bit/layer/2",
        "2-bit/layer/4",
        "4-bit/output",
        "4-bit/layer/2",
        "4-bit/layer/4",
    ]
    assert lagrangian.duals.multipliers.tolist() == [0] * 6
    published = Lagrangian(small_net(bits=[2, 4]), F.cross_entropy, objective="full")
    assert published.duals.multipliers.tolist() == [1, 0, 0, 1, 0, 0]  # Algorithm 1
    expected = [1 / 9, 1 / 9, 1 / 9, 1 / 225, 1 / 225, 1 / 225]  # divergence and relative distance go by squares
    assert lagrangian.tolerances.tolist() == torch.tensor(expected).tolist()


def test_terms_have_a_distance_per_bound_and_an_output_per_view() -> None:
    lagrangian = Lagrangian(small_net(bits=[2, "w4a8"]), F.cross_entropy)
    x, y = torch.rand(5, 3), torch.tensor([0, 1, 0, 1, 1])
    terms = lagrangian.terms(x, y)
    assert set(terms.outputs) == {"full", "2-bit", "w4a8"}
    assert terms.distances.shape == (6,)
    assert torch.equal(terms.outputs["full"], lagrangian.net(x))
    with lagrangian.net.under("w4a8"):
        assert torch.equal(terms.outputs["w4a8"], lagrangian.net(x))
    losses = [F.cross_entropy(terms.outputs[view], y) for view in ("2-bit", "w4a8")]
    assert torch.equal(terms.loss, torch.stack(losses).sum())


@pytest.mark.parametrize("objective", [None, "low", "full"])
def test_without_multipliers_it_is_the_task_loss(objective: str | None) -> None:
    """Of low precision, unless told otherwise."""
    lagrangian = Lagrangian(small_net(), F.cross_entropy, objective=objective)
    lagrangian.duals.multipliers.zero_()
    x, y = torch.rand(5, 3), torch.tensor([0, 1, 0, 1, 1])
    with lagrangian.net.under(None if objective == "full" else "2-bit"):
        assert torch.equal(lagrangian(x, y), F.cross_entropy(lagrangian.net(x), y))


@pytest.mark.parametrize(("gradient", "objective"), [("exact", "full"), ("norms", "full"), ("straight-through", "low")])
def test_the_objective_by_default_is_one_that_the_gradient_can_train(gradient: str, objective: str) -> None:
    assert Lagrangian(small_net(), F.cross_entropy, gradient=gradient).objective == objective


def test_inputs_are_passed_on_as_the_model_takes_them() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            y: Tensor = self.layers(x * scale)
            return y

    x, scale, y = torch.rand(5, 3), torch.rand(5, 1), torch.tensor([0, 1, 0, 1, 1])
    torch.manual_seed(0)
    lagrangian = Lagrangian(prepare(Two(), (x, scale)), F.cross_entropy)
    assert torch.equal(lagrangian((x, scale), y), lagrangian({"scale": scale, "x": x}, y))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_multipliers_and_sums_are_at_least_float32(dtype: torch.dtype) -> None:
    """In bfloat16 a sum stops growing at 256 samples, and a multiplier of 1 no longer feels a step of 0.003."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(3))).to(dtype)
    x, y = torch.rand(5, 3).to(dtype), torch.tensor([0, 1, 0, 1, 1])
    lagrangian = Lagrangian(prepare(model, x), F.cross_entropy)
    for _ in range(3):
        lagrangian(x, y).backward()
    expected = torch.float64 if dtype is torch.float64 else torch.float32
    buffers = (lagrangian.duals.multipliers, lagrangian.distance_sum, lagrangian.samples, lagrangian.tolerances)
    assert {buffer.dtype for buffer in buffers} == {expected}
    assert lagrangian.tolerances[0].item() == torch.tensor((1 / 3) ** 2, dtype=expected).item()
    lagrangian.dual_step()
    assert lagrangian.duals.multipliers.isfinite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraints": []}, "at least one constraint"),
        ({"gradient": "ste"}, "unknown gradient 'ste'; choose one of exact, norms, straight-through"),
        ({"duals": "adam"}, r"duals is a dual rule such as Ascent\(rate=0.01\), not 'adam'"),
        ({"duals": Ascent}, r"duals is a dual rule such as Ascent\(rate=0.01\), not <class"),
        ({"layer_sample": 0.0}, "above 0 and at most 1, not 0.0"),
        ({"layer_sample": 1.01}, "above 0 and at most 1, not 1.01"),
        ({"layer_sample": "all"}, "above 0 and at most 1, not 'all'"),
        (
            {"constraints": LayerConstraint()},
            r"constraints is a list, such as \[LayerConstraint\(\)\], not LayerConstraint",
        ),
        ({"constraints": 5}, "constraints is a list"),
        (
            {"constraints": [LayerConstraint(tolerance={2: 0.1})]},  # type: ignore[dict-item]
            "the tolerance for 2 is no text; layers are called by",
        ),
        (
            {"constraints": [LayerConstraint(), LayerConstraint("squared")]},
            "several constraints called '2-bit/layer/2'",
        ),
        ({"constraints": [OutputConstraint(), OutputConstraint("kl")]}, "several constraints called '2-bit/output'"),
    ],
)
def test_what_can_not_be_asked_for(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Lagrangian(small_net(), F.cross_entropy, **options)  # type: ignore[arg-type]


def test_layer_constraints_need_quantised_weights() -> None:
    with pytest.raises(InputError, match="no plan quantises the weights of any layer"):
        Lagrangian(small_net(bits="a4"), F.cross_entropy, [LayerConstraint()])
