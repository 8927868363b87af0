"""What a training step costs: PDQAT beside plain training, straight-through training and Brevitas.

    python benchmarks/training_step.py              all modes, width 1
    python benchmarks/training_step.py --quick      compiled bfloat16 only, on two stages of one block
    python benchmarks/training_step.py --width 5    the paper's width

Every variant trains the pre-activation ResNet-20 on batches of 128 images at 2 bits. In each round every variant takes
its turn, so a ratio compares steps that ran within seconds of each other; medians and quartiles over rounds. Numbers go
to results/training_step-KIND.json, KIND being the processor's instructions, which keeps what was measured in other
modes and widths; those of --quick to results/training_step-quick-KIND.json.

Brevitas (pip install -c constraints.txt -e '.[benchmark]') is left out where it isn't installed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config
from brevitas_network import quantized
from measure import (
    LR,
    QUICK_DEPTH,
    RESULTS,
    Step,
    commit,
    interleaved,
    machine,
    network,
    objective,
    plain,
    ratios,
    training_step,
    write,
)
from rich.markup import escape
from rich.table import Table
from torch import nn

from pdqat import Lagrangian
from pdqat.deployment.bench import Spread
from pdqat.flags.arguments import count
from pdqat.layers.arithmetic import HAS_BFLOAT16_KERNELS
from pdqat.process import check_compiler, keep_freed_memory
from pdqat.terminal import PlainConsole
from pdqat.training.muon import muon_for

SAMPLE = 0.25
THE_DEFAULT = "the default"
FLOORS = {
    "plain": 3.0,
    "full view": 3.0,
    "straight-through": 3.0,
    "(i)": 5.0,
    "(i) exact norms": 4.0,
    "(ii)": 7.0,
    "(ii) sampled": 5 + 2 * SAMPLE,
    THE_DEFAULT: 3 + (3 + 2) * SAMPLE,
    "Brevitas": 3.0,
    "Brevitas, eager": 3.0,
}
"""Convolutions of a step, in forward passes: forward, input gradient, weight gradient; over plain training's 3 they are
the least that a step can cost. Batch norms of low precision follow a straight-through gradient unless named exact."""

STATISTICS_STEPS = 2
"""Steps in which Brevitas collects the ranges of activations; its default, 300, is a branch that can't be compiled."""


def brevitas(model: nn.Module) -> nn.Module:
    """The same network with Brevitas' 2-bit weights and activations, first and last layer in full precision."""
    return plain(quantized(model, 2, STATISTICS_STEPS))


VARIANTS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "plain": plain,
    "full view": lambda model: objective("full", model),
    "straight-through": lambda model: objective("ste", model),
    "(i)": lambda model: objective("i", model),
    "(i) exact norms": lambda model: objective("i", model, gradient="exact"),
    "(ii)": lambda model: objective("ii", model),
    "(ii) sampled": lambda model: objective("ii", model, layer_sample=SAMPLE),
    THE_DEFAULT: lambda model: objective("default", model),
    "Brevitas": brevitas,
    "Brevitas, eager": brevitas,
}
MODES = ["eager float32", "eager bfloat16", "compiled float32", "compiled bfloat16"]
ASKED_FOR = "compiled bfloat16"

HELPED = ["(ii)"]
"""Of a quick run the variants that other processes compile meanwhile, for the cache: on two cores, one."""


def has_brevitas() -> bool:
    try:
        import brevitas.nn  # noqa: F401
    except ImportError:
        return False
    return True


def measured_in(mode: str, quick: bool) -> list[str]:
    """The variants to measure in a mode; Brevitas in bfloat16 only where torch has kernels for it."""
    quick_names = ["plain", THE_DEFAULT, "(i)", "(ii) sampled", *HELPED]
    names = quick_names if quick else [name for name in VARIANTS if "Brevitas" not in name]
    if not has_brevitas():
        return names
    own_mode = not quick and (HAS_BFLOAT16_KERNELS or "float32" in mode)
    as_it_comes = mode.startswith("compiled")
    return names + ["Brevitas"] * own_mode + ["Brevitas, eager"] * as_it_comes


def uses_bfloat16(variant: str, mode: str) -> bool:
    """Brevitas' convolutions would be many times slower in bfloat16 where there are no kernels: it gets float32."""
    return "bfloat16" in mode and (HAS_BFLOAT16_KERNELS or not variant.startswith("Brevitas"))


def is_compiled(variant: str, mode: str) -> bool:
    return "compiled" in mode and variant != "Brevitas, eager"


def made(variant: str, mode: str, depth: int, width: int, console: PlainConsole) -> Step:
    """A step that is warm: compiled, and past the steps for which Brevitas collects statistics."""
    loss = VARIANTS[variant](network(depth, width))
    if variant.startswith("Brevitas"):
        for _ in range(STATISTICS_STEPS + 1):
            loss(torch.randn(8, 3, 32, 32), torch.zeros(8, dtype=torch.long))
    optimizer = muon_for(loss.net, LR) if variant == THE_DEFAULT and isinstance(loss, Lagrangian) else None
    compiled, amp = is_compiled(variant, mode), uses_bfloat16(variant, mode)
    step = training_step(loss, compiled=compiled, amp=amp, optimizer=optimizer)
    started = time.perf_counter()
    step()
    console.print(f"  {variant}: first step {time.perf_counter() - started:.0f} s")
    return step


def measure(
    variants: list[str],
    mode: str,
    depth: int,
    width: int,
    rounds: int,
    console: PlainConsole,
    helpers: "dict[str, subprocess.Popen[bytes]]",
) -> list[dict[str, Any]]:
    """Times in one mode; a variant that a helper compiles for the cache is made when the helper is done."""
    console.print(f"{mode}, depth {depth}, width {width}")
    torch.compiler.reset()
    steps = {}
    for name in variants:
        if name in helpers and helpers[name].wait() != 0:
            raise SystemExit(f"the helper that compiles {name} failed with exit code {helpers[name].returncode}")
        steps[name] = made(name, mode, depth, width, console)
    seconds = interleaved(steps, rounds)
    return [
        {
            "date": machine()["date"],
            "commit": commit(),
            "mode": mode,
            "compiled": is_compiled(name, mode),
            "autocast": uses_bfloat16(name, mode),
            "width": width,
            "depth": depth,
            "variant": name,
            "images_per_second": 128 / Spread.of(seconds[name]).median,
            "ratio": vars(ratios(seconds, name, "plain")),
            "to_sampled": vars(ratios(seconds, name, "(ii) sampled")),
            "floor": FLOORS[name] / 3,
            "seconds": seconds[name],
        }
        for name in variants
    ]


def earlier(name: str) -> list[dict[str, Any]]:
    """What earlier runs on the same kind of machine found in other modes and widths."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return []
    stored = json.loads(path.read_text())
    same = all(stored["machine"][key] == machine()[key] for key in ("processor", "cores", "threads", "torch"))
    return list(stored["entries"]) if same else []


def show(entries: list[dict[str, Any]], console: PlainConsole) -> None:
    table = Table(title=escape("batch 128, 2 bits; ratio to plain training in the same mode: median [quartiles]"))
    for heading in ("depth", "width", "mode", "variant", "images/s", "ratio", "floor", "n"):
        table.add_column(heading)
    for entry in entries:
        ratio = Spread(**entry["ratio"])
        speed, floor = f"{entry['images_per_second']:.0f}", f"{entry['floor']:.2f}"
        size = str(entry["depth"]), str(entry["width"])
        table.add_row(*size, entry["mode"], entry["variant"], speed, str(ratio), floor, str(ratio.n))
    console.print(table)


def last_line(entries: list[dict[str, Any]]) -> str:
    """Ratios of compiled bfloat16; `brevitas` is the speed of sampled (ii) over Brevitas as it comes, eager float32."""
    measured = {entry["variant"]: entry for entry in entries if entry["mode"] == ASKED_FOR}
    names = (THE_DEFAULT, "(i)", "(ii)", "(ii) sampled")
    default, i, ii, sampled = (f"{measured[name]['ratio']['median']:.2f}" for name in names)
    eager = measured.get("Brevitas, eager")
    peer = "not-installed" if eager is None else f"{eager['to_sampled']['median']:.2f}"
    return f"ratios: default={default} i={i} ii={ii} sampled={sampled} brevitas={peer}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only what the last line needs, in under five minutes")
    parser.add_argument("--mode", choices=MODES, action="append", help="only this mode; may be given several times")
    parser.add_argument("--width", type=count, default=1)
    parser.add_argument("--rounds", type=count, help="turns of each variant; 25, or 7 with --quick")
    parser.add_argument("--fill-cache", choices=HELPED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    console = PlainConsole(width=120)
    check_compiler()
    keep_freed_memory()
    if options.quick:  # two processes compile: workers of their own would only be in each other's way
        torch._inductor.config.compile_threads = 1
    if options.fill_cache:
        made(options.fill_cache, ASKED_FOR, QUICK_DEPTH, options.width, console)
        return
    console.print(machine())
    rounds = options.rounds or (7 if options.quick else 25)
    helpers = {
        name: subprocess.Popen([*sys.orig_argv, "--fill-cache", name], stdout=subprocess.DEVNULL)
        for name in HELPED * options.quick
    }
    kind = machine()["instructions"].lower()
    name = f"training_step-quick-{kind}" if options.quick else f"training_step-{kind}"
    entries = [] if options.quick else earlier(name)
    line = None
    for mode in [ASKED_FOR] if options.quick else options.mode or MODES:
        depth = QUICK_DEPTH if options.quick else 20
        kept = [entry for entry in entries if (entry["mode"], entry["width"]) != (mode, options.width)]
        new = measure(measured_in(mode, options.quick), mode, depth, options.width, rounds, console, helpers)
        entries = kept + new
        write(name, {"entries": entries})
        if mode == ASKED_FOR:
            line = last_line(new)
    show(entries, console)
    if not HAS_BFLOAT16_KERNELS:
        console.print("This processor has no bfloat16 kernels: convolutions in bfloat16 mode used float32 kernels.")
    if line is not None:
        print(line)


if __name__ == "__main__":
    main()
