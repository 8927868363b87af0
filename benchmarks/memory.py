"""Peak memory of a training step.

    python benchmarks/memory.py

Width-1 pre-activation ResNet-20, batch 128, 2 bits, float32. Counted are the bytes that torch hands out for tensors
during one warm step, at their highest, and those of weights, gradients and Adam's moments. The count is exact and the
same in every run, so there is no spread. What kernels use for scratch inside is not in it. Numbers go to
results/memory.json.
"""

import argparse
from collections.abc import Callable

import torch
from measure import Step, network, objective, plain, training_step, write
from rich.table import Table
from torch import nn
from torch.profiler import ProfilerActivity, profile

from pdqat import ChannelConstraint
from pdqat.process import check_compiler
from pdqat.terminal import PlainConsole

MEBIBYTE = 2**20
VARIANTS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "plain": plain,
    "straight-through": lambda model: objective("ste", model),
    "(i)": lambda model: objective("i", model),
    "(ii)": lambda model: objective("ii", model),
    "(ii) sampled": lambda model: objective("ii", model, layer_sample=0.25),
    "(ii) by channel": lambda model: objective("ii", model, constraint=ChannelConstraint()),
}


def peak(step: Step) -> int:
    """The most bytes that a step holds at once beyond what it found."""
    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    assert profiler.profiler is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    return highest


def held_between_steps(loss: nn.Module) -> int:
    """Weights and buffers, gradients, and Adam's two moments."""
    trained = sum(parameter.numel() * parameter.element_size() for parameter in loss.parameters())
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in loss.buffers())
    return 4 * trained + buffers


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    check_compiler()
    console = PlainConsole()
    table = Table(title="peak memory of a training step, batch 128")
    for heading in ("execution", "variant", "MiB", "times plain"):
        table.add_column(heading)
    entries = []
    for execution in ("eager", "compiled"):
        torch.compiler.reset()
        peaks: dict[str, int] = {}
        for name, make in VARIANTS.items():
            loss = make(network())
            step = training_step(loss, compiled=execution == "compiled", amp=False)
            peaks[name] = held_between_steps(loss) + peak(step)
            ratio = peaks[name] / peaks["plain"]
            entries.append({"execution": execution, "variant": name, "bytes": peaks[name], "ratio": ratio})
            table.add_row(execution, name, f"{peaks[name] / MEBIBYTE:.0f}", f"{ratio:.2f}")
    write("memory", {"entries": entries})
    console.print(table)


if __name__ == "__main__":
    main()
