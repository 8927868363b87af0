"""What was measured, as the tables of a page."""

import statistics
from collections import Counter
from textwrap import fill
from typing import Any

Cell = dict[str, Any]
"""One way at one precision: how it was trained and what came of it."""
AFTER_CALIBRATION, CONSTRAINED = "post-training", "constrained"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MEASURES = ("cosine", "tenth", "ranking", "people")


def in_page(page: str, results: dict[str, Any]) -> str:
    """The page with the tables of the results between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{measured(results)}\n\n{END}{after}"


def measured(results: dict[str, Any]) -> str:
    """The ways side by side at the most steps that there are; then what there is of blocks, plan, file and speed."""
    found: list[Cell] = results["cells"]
    steps = max(it["steps"] for it in found)
    latest = [it for it in found if it["steps"] in (0, steps)]
    road = next((it for it in latest if "road" in it), None)
    blocks = [_blocks(it) for it in latest if (it["method"], it["seed"]) == (CONSTRAINED, 0)]
    parts = [_ways(latest), fill(_machines(latest), 120), *blocks, *([] if road is None else _road(road["road"]))]
    return "\n\n".join([*parts, *_speed(results.get("speed", []))])


def _ways(found: list[Cell]) -> str:
    """A row for each: the mean over seeds, and half of their range."""
    lines = ["| precision | method | steps | seeds | cosine | a tenth is below | ranking | people |", "|---" * 8 + "|"]
    ways = sorted({(it["bits"], it["steps"], it["method"]) for it in found}, key=lambda way: (way[0], way[1], way[2]))
    for bits, steps, method in ways:
        rows = [it["low"] for it in found if (it["bits"], it["steps"], it["method"]) == (bits, steps, method)]
        columns = " | ".join(_spread([row[name] for row in rows]) for name in MEASURES)
        lines.append(f"| {bits.upper()} | {method} | {steps} | {len(rows)} | {columns} |")
    full = next(it["full"] for it in found if it["method"] == AFTER_CALIBRATION)
    return "\n".join([*lines, f"| full precision | | | | 1 | 1 | 1 | {full['people']:.3f} |"])


def _spread(values: list[float]) -> str:
    half = (max(values) - min(values)) / 2
    return f"{statistics.mean(values):.3f}" + (f" ± {half:.3f}" if len(values) > 1 else "")


def _machines(found: list[Cell]) -> str:
    """What it ran on, and what a training took of it."""
    where = sorted({f"{it['processor']}, {it['date']}" for it in found})
    trained = [it for it in found if it["steps"]]
    seconds = Counter[str]()
    for it in trained:
        seconds[it["method"]] += it["processor_seconds"]
    steps = Counter(it["method"] for it in trained for _ in range(it["steps"]))
    costs = ", ".join(f"{method} {seconds[method] / steps[method]:.1f} s" for method in sorted(steps, reverse=True))
    return f"{'; '.join(where)}. Processor time of a step, validation included: {costs}."


def _blocks(cell: Cell) -> str:
    """The blocks of a constrained model by their multipliers."""
    lines = [f"| {cell['bits'].upper()} | multiplier | distance | tolerance |", "|---|---|---|---|"]
    blocks = [bound for bound in cell["constraints"] if bound["kind"] == "block"]
    for bound in sorted(blocks, key=lambda bound: -bound["multiplier"]):
        numbers = f"{bound['multiplier']:.3f} | {bound['distance']:.3f} | {bound['tolerance']:.3f}"
        lines.append(f"| `{bound['where']}` | {numbers} |")
    return "\n".join(lines)


def _road(road: dict[str, Any]) -> list[str]:
    chosen = Counter(road["plan"].values())
    names = {bits: f"W{bits}A{bits}" if bits.isdigit() else bits.upper() for bits in chosen}
    counted = ", ".join(f"{chosen[bits]} x {names[bits]}" for bits in sorted(chosen, key=names.__getitem__))
    likeness = ["| under the plan | cosine | a tenth is below | ranking | people |", "|---|---|---|---|---|"]
    for when, name in (("as it is chosen", "plan_before"), ("after half as many steps more", "plan_after")):
        likeness.append(f"| {when} | {' | '.join(f'{road[name][measure]:.3f}' for measure in MEASURES)} |")
    passed = " and ".join(it["runtime"] for it in road["verified"] if it["passes"])
    part = road["bytes"] / road["float32_bytes"]
    file = f"The file: {road['bytes']:,} bytes, {part:.0%} of the float32 file's {road['float32_bytes']:,}; verified in"
    alike = f"{passed}. Its embeddings have a mean cosine of {road['cosine_of_file']:.4f} to the simulated model's."
    plan = f"The plan of {road['budget']} for {chosen.total()} layers: {counted}."
    return [plan, "\n".join(likeness), fill(f"{file} {alike}", 120)]


def _speed(timed: list[dict[str, Any]]) -> list[str]:
    if not timed:
        return []
    lines = ["| runtime | threads | sentences | ms | float32 ms | times as fast |", "|---|---|---|---|---|---|"]
    for row in timed:
        milliseconds = f"{1000 * row['integer']['median']:.1f} | {1000 * row['float32']['median']:.1f}"
        ratio = f"{row['ratio']['median']:.2f} [{row['ratio']['low']:.2f}, {row['ratio']['high']:.2f}]"
        lines.append(f"| {row['runtime']} | {row['threads']} | {row['batch']} | {milliseconds} | {ratio} |")
    first = timed[0]
    about = f"Median and quartiles of {first['ratio']['n']} rounds in turns; {first['processor']}, {first['date']}."
    return ["\n".join(lines), fill(about, 120)]
