"""What the benchmarks share: interleaved timing, the networks and objectives that are timed, and where results go."""

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.config.train_config import TrainConfig
from pdqat.constraints import Constraint
from pdqat.deployment.bench import Spread
from pdqat.flags.arguments import count
from pdqat.layers.arithmetic import HAS_BFLOAT16_KERNELS, in_autocast
from pdqat.models.preresnet import preresnet
from pdqat.task import Problem, TaskProblem

RESULTS = Path(__file__).parents[1] / "results"

Step = Callable[[], object]


def rounds_from(description: str | None, usual: int) -> int:
    """The command line of a benchmark that has nothing to choose but its rounds."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=count, default=usual, help=f"turns of each (default: {usual})")
    rounds: int = parser.parse_args().rounds
    return rounds


def interleaved(steps: Mapping[str, Step], rounds: int, per_turn: int = 2) -> dict[str, list[float]]:
    """Seconds of a step of each, round by round in turning order: what slows the machine slows all of them.

    A turn is one step to settle in, which does not count, and the mean of `per_turn` steps.
    """
    names = list(steps)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            steps[name]()
            started = time.perf_counter()
            for _ in range(per_turn):
                steps[name]()
            seconds[name].append((time.perf_counter() - started) / per_turn)
    return seconds


def ratios(seconds: Mapping[str, list[float]], name: str, to: str) -> Spread:
    """How many times as long as `to` a step of `name` takes, compared within each round."""
    return Spread.of([mine / its for mine, its in zip(seconds[name], seconds[to], strict=True)])


class TaskLoss(nn.Module):
    """The training loss of a plain module: a batch in, cross-entropy out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return F.cross_entropy(self.model(inputs).float(), target)


class Conv2d(nn.Conv2d):
    """A plain convolution that shares the package's way around missing bfloat16 kernels, so that modes compare."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        return in_autocast(super()._conv_forward, input, weight, bias)


def plain(model: nn.Module) -> TaskLoss:
    """The loss of the model as torch would train it."""
    for module in model.modules():
        if type(module) is nn.Conv2d:
            module.__class__ = Conv2d
    return TaskLoss(model)


QUICK_DEPTH = 6


def network(depth: int = 20, width: int = 1) -> nn.Module:
    """The pre-activation ResNet; QUICK_DEPTH is one of two stages with one block each, which compiles in less time."""
    torch.manual_seed(0)
    model = preresnet(8 if depth == QUICK_DEPTH else depth, width)
    if depth == QUICK_DEPTH:
        model.stages = nn.Sequential(*list(model.stages)[:2])
        model.norm, model.head = nn.BatchNorm2d(32 * width), nn.Linear(32 * width, 10)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def batch(size: int = 128) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(size, 3, 32, 32, generator=generator).to(memory_format=torch.channels_last)
    return images, torch.randint(10, (size,), generator=generator)


LR = 1e-4
"""Too small to train by: a step takes as long at any rate."""


def objective(method: str, model: nn.Module, bits: tuple[str, ...] = ("2",), **options: Any) -> Problem:
    """What the method minimises: full, ste, i and ii as the paper has them, or the default of `pdqat train`."""
    is_default = method == "default"
    quantizer = TrainConfig.quantizer if is_default else "dorefa"
    net = prepare(model, batch(64)[0], bits, quantizer=quantizer, tied_norms=is_default)
    if method in ("full", "ste"):
        return TaskProblem(net, F.cross_entropy, low=method == "ste")
    below: list[Constraint] = [options.pop("constraint", LayerConstraint())] if method != "i" else []
    if is_default:
        options |= {"view_sample": TrainConfig.view_sample, "layer_sample": TrainConfig.layer_sample}
    objective = "low" if is_default else "full"
    lagrangian = Lagrangian(net, F.cross_entropy, [OutputConstraint(), *below], objective=objective, **options)
    lagrangian.duals.multipliers.fill_(0.1)
    return lagrangian


def training_step(
    loss: nn.Module, *, compiled: bool, amp: bool, size: int = 128, optimizer: torch.optim.Optimizer | None = None
) -> Step:
    """One step of training: forward, backward, Adam or the given optimizer."""
    images, labels = batch(size)
    optimizer = optimizer or torch.optim.Adam(loss.parameters(), lr=LR)
    value = torch.compile(loss) if compiled else loss

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            result = value(images, labels)
        result.backward()
        optimizer.step()

    return step


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return {
        "date": date.today().isoformat(),
        "processor": models[0] if models else platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "bfloat16_kernels": HAS_BFLOAT16_KERNELS,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that was measured, marked if files had changed since."""
    described = ["git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty"]
    return subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def write(name: str, content: Mapping[str, Any]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **content}, indent=1) + "\n")
    return path
