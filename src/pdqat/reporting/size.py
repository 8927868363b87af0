"""Size, operations and, where they were measured, times and memory: low precision beside float32."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdqat.allocation.budget import FULL_BITS, Unit, plan_uses
from pdqat.deployment.microcontroller.beside import FLOAT32
from pdqat.layers.sizes import layer_sizes
from pdqat.precision import BitPlan, Precision
from pdqat.reporting.subject import Subject


@dataclass(frozen=True)
class Comparison:
    """One quantity in both precisions."""

    what: str
    unit: str
    float32: float | None
    low: float
    source: str
    """How it is known: counted, a file's size, or measured where."""


@dataclass(frozen=True)
class Sizes:
    """What is counted, and what was measured of exported files."""

    rows: list[Comparison]
    unmeasured: str
    """What was not measured, and which commands do that."""


def sizes_of(subject: Subject) -> Sizes:
    """Of every plan and every exported file."""
    rows = [row for view, plan in subject.plans.items() for row in _counted(subject, view, plan)]
    timed = [row for file, entry in subject.exports.items() for row in _measured(file, entry)]
    if any(row.unit == "ms" for row in timed):
        return Sizes([*rows, *timed], "")
    how = "" if subject.is_own else ": `pdqat export` and `pdqat bench` measure it"
    return Sizes([*rows, *timed], f"latency{how}")


def _counted(subject: Subject, view: str, plan: BitPlan) -> list[Comparison]:
    net = subject.problem.net
    every = layer_sizes(net, every=True)
    operations = {name: size for name, size in every.items() if size.operations}
    own = (parameter.numel() for name, parameter in net.named_parameters() if ".views." not in name)
    parameters = sum(own)
    planned = {name: every[name] for name in plan.precisions}
    low = plan_uses(Unit.BYTES, plan.precisions, planned)
    rest = (parameters - sum(size.parameters for size in planned.values())) * FULL_BITS / 8
    full = dict.fromkeys(every, Precision(None, None))
    of_plan = {name: plan[name] for name in operations}
    macs = float(sum(size.operations for size in operations.values()))
    return [
        Comparison(f"{view}: parameters", "bytes", parameters * FULL_BITS / 8, low + rest, "counted"),
        Comparison(
            f"{view}: bit operations of one sample",
            "BOPs",
            plan_uses(Unit.BOPS, {name: full[name] for name in operations}, operations),
            plan_uses(Unit.BOPS, of_plan, operations),
            f"counted, {macs:,.0f} multiply-accumulates",
        ),
    ]


ON_CORE = {"flash": ("weights", "code"), "RAM": ("arena", "stack")}
"""What a folder of C takes of a microcontroller, and what that is the sum of."""
CORE = "on an emulated Arm Cortex-M3"


def _measured(file: str, entry: dict[str, Any]) -> list[Comparison]:
    rows = [Comparison(file, "bytes", entry.get("float32_bytes"), entry["bytes"], "size of what was written")]
    on_core = entry.get("on_core", {})
    own, full = on_core.get(Path(file).name), on_core.get(FLOAT32)
    if own is not None:
        rows = []  # what is written is text; the program is what counts
        for what, parts in ON_CORE.items():
            low = sum(own[part] for part in parts)
            float32 = None if full is None else sum(full[part] for part in parts)
            rows.append(Comparison(f"{file}: {what}", "bytes", float32, low, f"{CORE}: {' and '.join(parts)}"))
        instructions = None if full is None else full["instructions"]
        rows.append(Comparison(f"{file}: instructions", "", instructions, own["instructions"], f"{CORE}, one sample"))
    for row in entry.get("timed", ()):
        threads = f"{row['threads']} thread{'s' * (row['threads'] > 1)}"
        rows.append(
            Comparison(
                f"{file}: batch of {row['batch']}",
                "ms",
                1000 * row["float32"]["median"],
                1000 * row["integer"]["median"],
                f"median of {row['integer']['n']}, {row['runtime']}, {threads}",
            )
        )
    return rows
