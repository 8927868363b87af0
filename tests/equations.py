"""The equations of paper and design, transcribed in plain PyTorch for small networks.

The transcription knows nothing of pdqat: it takes parameters by name and computes f, f^q and every constraint with
F.conv2d, F.linear, explicit rounding and explicit batch statistics.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Parameters = Mapping[str, Tensor]


class Block(nn.Module):
    """A pre-activation block, with a projection or with the identity beside it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm0 = nn.BatchNorm2d(inputs)
        self.conv0 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.side = nn.Conv2d(inputs, outputs, 1, bias=False) if inputs != outputs else None
        self.side_norm = nn.BatchNorm2d(outputs) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        a = self.norm0(x).clamp(0, 1)
        side: Tensor = x if self.side is None or self.side_norm is None else self.side_norm(self.side(a))
        y: Tensor = self.conv1(self.norm1(self.conv0(a)).clamp(0, 1)) + side
        return y


class PreActivation(nn.Module):
    """Stem, blocks, norm, mean, linear; with equal widths nothing but identities lies beside the blocks."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, widths[0], 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*(Block(i, o) for i, o in itertools.pairwise(widths)))
        self.norm = nn.BatchNorm2d(widths[-1])
        self.head = nn.Linear(widths[-1], 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.norm(self.blocks(self.stem(x))).mean((2, 3)))
        return y


class Chain(nn.Module):
    """conv-norm-relu twice, a convolution and a linear layer without a norm, linear; the layers have biases."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(2, 3, 3, padding=1)
        self.norm0 = nn.BatchNorm2d(3)
        self.conv1 = nn.Conv2d(3, 4, 3, stride=2)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 2, groups=2)
        self.fc0 = nn.Linear(4, 5)
        self.fc1 = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm0(self.conv0(x)).relu()
        h = self.norm1(self.conv1(h)).relu()
        h = self.conv2(h).relu().mean((2, 3))
        y: Tensor = self.fc1(self.fc0(h).relu())
        return y


@dataclass(frozen=True)
class Setting:
    """What a Lagrangian is asked for."""

    net: str = "projection"
    plans: tuple[int, ...] = (2,)
    layer: str | None = "relative"
    kind: str = "layer"
    output: str | None = "cross-entropy"
    gradient: str = "exact"
    norm: str = "exact"
    tied: bool = False
    scaled: bool = True

    def __str__(self) -> str:
        return "-".join(str(each) for each in vars(self).values())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "projection": lambda: PreActivation([3, 3, 4, 4]),
    "identity": lambda: PreActivation([3, 3, 3]),
    "chain": Chain,
}
BLOCKS = {"projection": ["blocks.0", "blocks.1", "blocks.2"], "identity": ["blocks.1"]}
OUTPUT_TOLERANCE = 0.3
LAYER_TOLERANCE = 0.01


def full_weight(w: Tensor, scaled: bool) -> Tensor:
    size = w.detach().abs().mean() if scaled else torch.ones(())
    return size * (torch.tanh(w) / torch.tanh(w).abs().max())


def low_weight(w: Tensor, bits: int, scaled: bool) -> Tensor:
    w = w.detach()
    size = w.abs().mean() if scaled else torch.ones(())
    n = (1 << bits) - 1
    return size * (2 * torch.round(n * (0.5 + torch.tanh(w) / (2 * torch.tanh(w).abs().max()))) / n - 1)


def low_activation(a: Tensor, bits: int) -> Tensor:
    n = (1 << bits) - 1
    return torch.round(a.detach().clamp(0, 1) * n) / n


def channels(x: Tensor, per_channel: Tensor) -> Tensor:
    return per_channel.view(1, -1, 1, 1) if x.dim() == 4 else per_channel.view(1, -1)


def distance(kind: str, full: Tensor, low: Tensor) -> Tensor:
    """Per channel, which stands in dimension 1."""
    others = [0, 2, 3] if full.dim() == 4 else [0]
    if kind == "absolute":
        return (full - low).abs().mean(others)
    if kind == "squared":
        return ((full - low) ** 2).mean(others)
    mean = channels(full, full.mean(others))
    variance = ((full - mean) ** 2).mean(others)
    return ((full - low) ** 2).mean(others) / (variance + 1e-5)


def operate(name: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if x.dim() == 2:
        return F.linear(x, weight, bias)
    if name == "conv1":
        return F.conv2d(x, weight, bias, stride=2)
    if name == "conv2":
        return F.conv2d(x, weight, bias, groups=2)
    return F.conv2d(x, weight, bias, padding=weight.shape[-1] // 2)


@dataclass
class Waiting:
    """The difference of a layer's two sides on its way to the norm behind it."""

    name: str
    difference: Tensor
    is_read: bool


@dataclass
class View:
    """One pass through the network, in full precision (`bits` is None) or under a plan of that many bits."""

    setting: Setting
    parameters: Parameters
    bits: int | None = None
    ends: tuple[str, str] = ("stem", "head")
    distances: dict[str, Tensor] = field(default_factory=dict)

    def norm(self, name: str, x: Tensor, *waiting: Waiting) -> Tensor:
        prefix = f"{name}.views.{self.bits}-bit" if self.bits and not self.setting.tied else name
        gain, shift = self.parameters[f"{prefix}.weight"], self.parameters[f"{prefix}.bias"]
        mean = channels(x, x.mean([0, 2, 3]))
        deviation = (((x - mean) ** 2).mean([0, 2, 3]) + 1e-5).sqrt()
        # What a layer constraint sees: the same map on both sides, statistics and affine part constants.
        slope = channels(x, (gain / deviation).detach())
        for item in waiting:
            here = (x - mean).detach() * slope + channels(x, shift.detach())
            self.compare_as_read(item.name, here + slope * item.difference, here, item.is_read)
        return (x - mean) / channels(x, deviation) * channels(x, gain) + channels(x, shift)

    def compare(self, name: str, kinds: Sequence[str], full: Tensor, low: Tensor) -> None:
        if self.setting.layer in kinds and self.setting.kind != "block":
            assert self.setting.layer is not None
            self.distances[name] = distance(self.setting.layer, full, low)

    def compare_as_read(self, name: str, full: Tensor, low: Tensor, is_read: bool) -> None:
        """What the next layer reads: clip(a) beside q_a(clip(a^q)); a beside a^q if no quantised layer reads them."""
        if is_read:
            assert self.bits is not None
            full, low = full.clamp(0, 1), low_activation(low, self.bits)
        self.compare(name, ["squared", "absolute"], full, low)

    def layer(self, name: str, x: Tensor, is_read: bool, has_norm: bool) -> tuple[Tensor, list[Waiting]]:
        """The layer's output, and what the norm behind it has to compare."""
        scaled = self.setting.scaled
        weight, bias = self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias")
        exact, through = self.setting.norm == "exact", self.setting.gradient == "straight-through"
        if name in self.ends:
            live = self.bits is None or exact or through or name == self.ends[1]
            weight, bias = (weight, bias) if live else (weight.detach(), None if bias is None else bias.detach())
            return operate(name, x, weight, bias), []
        if self.bits is None:
            return operate(name, x, full_weight(weight, scaled), bias), []
        rounded = low_activation(x, self.bits)
        clipped = x.clamp(0, 1)
        z = rounded if exact and not through else clipped + (rounded - clipped).detach()
        low = low_weight(weight, self.bits, scaled)
        if through:
            full = full_weight(weight, scaled)
            low = full + (low - full).detach()
        is_behind_every_rounding = name == "fc0"  # a bias enters behind the rounding of its own layer's input
        live_bias = bias if bias is None or exact or through or is_behind_every_rounding else bias.detach()
        output = operate(name, z, low, live_bias)

        constant_bias = None if bias is None else bias.detach()
        full_side = operate(name, z.detach(), full_weight(weight, scaled), constant_bias)
        self.compare(name, ["relative"], full_side, output.detach())
        waiting = [Waiting(name, full_side - output.detach(), is_read)] if has_norm else []
        if not has_norm:
            self.compare_as_read(name, full_side, output.detach(), is_read)
        return output, waiting


def pre_activation(view: View, x: Tensor) -> Tensor:
    block_names = sorted({name.partition(".conv0")[0] for name in view.parameters if ".conv0" in name})
    h, _ = view.layer("stem", x, is_read=True, has_norm=True)
    waiting: list[Waiting] = []
    for index, name in enumerate(block_names):
        block_input = h
        h, waiting = pre_activation_block(view, name, h, waiting, is_last=index == len(block_names) - 1)
        if view.bits and view.setting.kind == "block" and name in BLOCKS[view.setting.net]:
            twin = View(view.setting, view.parameters)
            full, _ = pre_activation_block(twin, name, block_input.detach(), [], is_last=False)
            assert view.setting.layer is not None
            view.distances[name] = distance(view.setting.layer, full, h.detach())
    h = view.norm("norm", h, *waiting)
    return view.layer("head", h.mean((2, 3)), is_read=False, has_norm=False)[0]


def pre_activation_block(
    view: View, name: str, x: Tensor, waiting: list[Waiting], is_last: bool
) -> tuple[Tensor, list[Waiting]]:
    a = view.norm(f"{name}.norm0", x, *waiting).clamp(0, 1)
    side = x
    if f"{name}.side.weight" in view.parameters:
        side, at_side = view.layer(f"{name}.side", a, is_read=False, has_norm=True)
        side = view.norm(f"{name}.side_norm", side, *at_side)
    h, at_conv0 = view.layer(f"{name}.conv0", a, is_read=True, has_norm=True)
    h = view.norm(f"{name}.norm1", h, *at_conv0).clamp(0, 1)
    h, at_conv1 = view.layer(f"{name}.conv1", h, is_read=not is_last, has_norm=True)
    return h + side, at_conv1


def chain(view: View, x: Tensor) -> Tensor:
    view.ends = ("conv0", "fc1")
    h, _ = view.layer("conv0", x, is_read=True, has_norm=True)
    h, at_conv1 = view.layer("conv1", view.norm("norm0", h).relu(), is_read=True, has_norm=True)
    h, _ = view.layer("conv2", view.norm("norm1", h, *at_conv1).relu(), is_read=False, has_norm=False)
    h, _ = view.layer("fc0", h.relu().mean((2, 3)), is_read=False, has_norm=False)  # it reads means of conv2's values
    return view.layer("fc1", h.relu(), is_read=False, has_norm=False)[0]


def output_distance(kind: str, full: Tensor, low: Tensor) -> Tensor:
    if kind == "squared":
        return ((full - low) ** 2).mean()
    f, log_low = full.softmax(1), low.log_softmax(1)
    per_sample = -(f * log_low).sum(1)
    if kind == "kl":
        per_sample = (f * (full.log_softmax(1) - log_low)).sum(1)
    return per_sample.mean()


def transcribed(setting: Setting, parameters: Parameters, duals: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """mean loss(f(x), y) + sum over plans and constraints of multiplier x (mean distance - tolerance)."""
    network = chain if setting.net == "chain" else pre_activation
    full = network(View(setting, parameters), x)
    total = F.cross_entropy(full, y)
    for bits in setting.plans:
        view = View(setting, parameters, bits)
        low = network(view, x)
        if setting.output is not None:
            slack = output_distance(setting.output, full, low) - OUTPUT_TOLERANCE
            total = total + duals[f"{bits}-bit/output"].sum() * slack
        for name, per_channel in view.distances.items():
            found = per_channel if setting.kind == "channel" else per_channel.mean()
            total = total + (duals[f"{bits}-bit/{setting.kind}/{name}"] * (found - LAYER_TOLERANCE)).sum()
    return total
