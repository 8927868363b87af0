"""Networks that other people wrote, on the whole road: prepare, fit, rank, allocate, under_plan, fit, export, restore.

    python examples/other_networks.py [NAME ...]            # shows what is quantised, and the verified file
    python examples/other_networks.py --write docs/models.md

All have random weights, small sizes and made-up data: what is shown is that the road is open, not how good they are.
Needs `pip install 'pdqat[plan,export,examples]'`; takes a few seconds a network.
"""

import argparse
import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pdqat

Loss = Callable[[Tensor, Tensor], Tensor]
SAMPLES, CLASSES, WORDS, TIME = 16, 3, 50, 8
BUDGET = "5 bits"


@dataclass(frozen=True)
class Network:
    """A network with inputs that it takes, a target and a loss."""

    model: nn.Module
    inputs: Any
    target: Tensor
    loss: Loss = F.cross_entropy
    constraints: tuple[pdqat.Constraint, ...] | None = None


def _images(side: int, channels: int = 3) -> Tensor:
    return torch.rand(SAMPLES, channels, side, side)


def _labels(*shape: int) -> Tensor:
    return torch.randint(CLASSES, (SAMPLES, *shape))


def resnet() -> Network:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=CLASSES)
    return Network(ResNetForImageClassification(config), {"pixel_values": _images(32)}, _labels())


def vit() -> Network:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=4,
        num_labels=CLASSES,
    )
    return Network(ViTForImageClassification(config), _images(16), _labels())


def bert() -> Network:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=TIME,
        num_labels=CLASSES,
    )
    words = torch.randint(WORDS, (SAMPLES, TIME))
    mask = (torch.arange(TIME) < torch.randint(4, TIME + 1, (SAMPLES, 1))).long()
    return Network(BertForSequenceClassification(config), {"input_ids": words, "attention_mask": mask}, _labels())


def gpt2() -> Network:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=WORDS,
        n_positions=TIME,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    words = torch.randint(WORDS, (SAMPLES, TIME + 1))
    return Network(GPT2LMHeadModel(config), {"input_ids": words[:, :-1]}, words[:, 1:], _per_word)


def _per_word(scores: Tensor, words: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), words.flatten())


def mobilenet_v2() -> Network:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(image_size=32, depth_multiplier=0.35, num_labels=CLASSES)
    return Network(MobileNetV2ForImageClassification(config), _images(32), _labels())


def efficientnet() -> Network:
    from efficientnet_pytorch import EfficientNet

    size = {"image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.1}
    model = EfficientNet.from_name("efficientnet-b0", num_classes=CLASSES, **size)
    return Network(model, _images(32), _labels())


def monai_unet() -> Network:
    from monai.networks.nets import UNet

    model = UNet(
        spatial_dims=2, in_channels=1, out_channels=CLASSES, channels=(4, 8, 16), strides=(2, 2), num_res_units=1
    )
    return Network(model, _images(16, 1), _labels(16, 16))


class SmallUNet(nn.Module):
    """Halves the image and doubles it again by a transposed convolution, with one connection across."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.down = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge = nn.Sequential(nn.Conv2d(16, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.head = nn.Conv2d(8, CLASSES, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.stem(image)
        coarse = torch.relu(self.up(self.down(fine)))
        scores: Tensor = self.head(self.merge(torch.cat([fine, coarse], 1)))
        return scores


def small_unet() -> Network:
    return Network(SmallUNet(), _images(12, 1), _labels(12, 12))


def depthwise() -> Network:
    def separable(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
        return [
            *(nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU6()),
            *(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU6()),
        ]

    stem = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()]
    body = [*separable(8, 16), *separable(16, 24, 2), *separable(24, 24)]
    model = nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(24, CLASSES))
    return Network(model, _images(16), _labels())


class TwoInputs(nn.Module):
    """Joins a signal and a vector of facts about it, and estimates one number."""

    def __init__(self) -> None:
        super().__init__()
        self.signal = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), nn.SiLU(), nn.Conv1d(8, 8, 3, padding=1), nn.SiLU())
        self.facts = nn.Sequential(nn.Linear(5, 8), nn.LeakyReLU())
        self.joined = nn.Sequential(nn.Linear(16, 16), nn.Hardswish(), nn.Linear(16, 1))

    def forward(self, signal: Tensor, facts: Tensor) -> Tensor:
        both = torch.cat([self.signal(signal).mean(-1), self.facts(facts)], 1)
        estimate: Tensor = self.joined(both)
        return estimate.squeeze(1)


def two_inputs() -> Network:
    inputs = (torch.rand(SAMPLES, 2, 10), torch.rand(SAMPLES, 5))
    return Network(TwoInputs(), inputs, torch.rand(SAMPLES), F.mse_loss)


class Encoder(nn.Module):
    """Words, their places, and torch's own encoder."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, activation="gelu")
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Parameter(torch.randn(TIME, 16) / 4)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(self.words(words) + self.places).mean(1))
        return scores


def encoder() -> Network:
    return Network(Encoder(), torch.randint(WORDS, (SAMPLES, TIME)), _labels())


def dcgan() -> Network:
    def doubling(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]

    stem = [nn.ConvTranspose2d(10, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True)]
    last = [nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh()]
    model = nn.Sequential(*stem, *doubling(32, 16), *doubling(16, 8), *last)
    return Network(model, torch.randn(SAMPLES, 10, 1, 1), 2 * _images(32) - 1, F.mse_loss)


NETWORKS: dict[str, tuple[str, Callable[[], Network]]] = {
    "resnet": ("ResNet of transformers", resnet),
    "vit": ("ViT of transformers", vit),
    "bert": ("BERT of transformers", bert),
    "gpt2": ("GPT-2 of transformers", gpt2),
    "mobilenet-v2": ("MobileNetV2 of transformers", mobilenet_v2),
    "efficientnet": ("EfficientNet of efficientnet_pytorch", efficientnet),
    "monai-unet": ("UNet of monai", monai_unet),
    "small-unet": ("U-Net with transposed convolutions", small_unet),
    "depthwise": ("depthwise-separable network", depthwise),
    "two-inputs": ("regressor of two inputs", two_inputs),
    "encoder": ("nn.TransformerEncoder", encoder),
    "dcgan": ("DCGAN's generator", dcgan),
}
"""By name: what it is, and how it is made."""


@dataclass(frozen=True)
class Result:
    """What became of a network on the road."""

    coverage: Any
    plan: dict[str, str]
    report: Any
    low: nn.Module
    """The plain module in low precision."""


def go(network: Network, file: Path, bits: int = 4) -> Result:
    """The whole road."""
    batches = [(network.inputs, network.target)]
    net = pdqat.prepare(network.model, network.inputs, bits=bits)
    coverage = net.coverage
    problem = pdqat.Lagrangian(net, network.loss, network.constraints)
    pdqat.fit(problem, batches, validation=batches, epochs=2, lr=1e-3)
    pdqat.rank(problem, batches)
    allocation = pdqat.allocate(problem, batches, budget=BUDGET, bits=[2, 4, 8], by="dual")
    problem = problem.under_plan(allocation)
    pdqat.fit(problem, batches, validation=batches, epochs=1, lr=1e-3)
    report = pdqat.export(problem.net, file, network.inputs, check=batches)
    plan = {layer: str(precision) for layer, precision in allocation.precisions.items()}
    return Result(coverage, plan, report, copy.deepcopy(problem.net).restore(plan=allocation.name))


def page(results: dict[str, Result]) -> str:
    """docs/models.md."""
    lines = [
        "# Networks of other people",
        "",
        "Each of these went the whole road with small sizes, random weights and made-up data: `prepare` with 4 bits",
        f"and nothing else said, `fit`, `rank`, `allocate` with {BUDGET} on average, `under_plan`, `fit`, `export`",
        "with verification in ONNX Runtime and OpenVINO, and `restore`. The tests do the same. Made by",
        "`python examples/other_networks.py --write docs/models.md`.",
        "",
        "| network | layers quantised | of the weights | of the operations | layers in real numbers in the file |",
        "|---|---|---|---|---|",
    ]
    for name, result in results.items():
        coverage = result.coverage
        quantised = f"{len(coverage.layers)} | {coverage.of_weights:.1%} | {coverage.of_operations:.1%}"
        lines.append(f"| {NETWORKS[name][0]} | {quantised} | {len(result.report.real_layers)} |")
    lines += ["", "## What is left alone", ""]
    for name, result in results.items():
        lines += [f"### {NETWORKS[name][0]}", "", "| left alone | reason |", "|---|---|"]
        lines += [
            f"| `{layer or 'the model itself'}` | {reason} |" for layer, reason in result.coverage.left_alone.items()
        ]
        lines.append("")
    return "\n".join(lines)


def main(names: list[str], write: Path | None) -> None:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or NETWORKS:
            torch.manual_seed(0)
            results[name] = go(NETWORKS[name][1](), Path(folder) / f"{name}.onnx")
            print(f"{NETWORKS[name][0]}: {results[name].coverage}\n{results[name].report}\n")
    if write is not None:
        write.write_text(page(results))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NETWORKS, []], metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page to write")
    arguments = parser.parse_args()
    main(arguments.names, arguments.write)
