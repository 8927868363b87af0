"""Whether layer distances may be estimated on a part of each batch: accuracy and multipliers at 2 bits on CIFAR-10.

    python benchmarks/sampling.py --jobs 2 --seeds 3    trains what is missing below runs/sampling, prints the tables
    python benchmarks/sampling.py --table               prints the tables of what is finished

The seeds are the same for both. Cells can be stopped and continued at any point. The numbers go to
results/sampling.json.
"""

import json
from typing import Any

import torch
from cells import RELATIVE, ROOT, Cells
from rich.table import Table

from pdqat import Lagrangian
from pdqat.config.trained import Trained
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole

WHOLE, QUARTER = "whole batch", "a quarter"
CELLS = {
    WHOLE: [*RELATIVE, "--layer-sample", "1"],
    QUARTER: [*RELATIVE, "--layer-sample", "0.25"],
}
BATCHES, DRAWS = 6, 3


def layer_multipliers(entry: dict[str, Any]) -> torch.Tensor:
    """After the last epoch: the best one may be another in each cell."""
    last = entry["metrics"][-1]["constraints"]
    return torch.tensor([bound["multiplier"] for bound in last if bound["kind"] == "layer"])


def compare(entries: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Per seed, how far the layer multipliers of the two cells agree."""
    by_cell = {(entry["cell"], entry["seed"]): layer_multipliers(entry) for entry in entries}
    rows = []
    for seed in sorted({seed for _, seed in by_cell}):
        if (WHOLE, seed) in by_cell and (QUARTER, seed) in by_cell:
            whole, quarter = by_cell[WHOLE, seed], by_cell[QUARTER, seed]
            rows.append(
                {
                    "seed": seed,
                    "mean_whole": float(whole.mean()),
                    "mean_quarter": float(quarter.mean()),
                    "correlation": float(torch.corrcoef(torch.stack([whole, quarter]))[0, 1]),
                    "largest_difference": float((whole - quarter).abs().max()),
                }
            )
    return rows


@torch.no_grad()
def bias(run: Run) -> list[float]:
    """Per layer, by which part a quarter overestimates the distance of the same training batches, at the best epoch."""
    trained = Trained.open(run.path)
    lagrangian = trained.problem
    assert isinstance(lagrangian, Lagrangian)
    lagrangian.train()
    sums = {1.0: torch.zeros(()), 0.25: torch.zeros(())}
    for number, (inputs, target) in enumerate(trained.loaders.training):
        if number == BATCHES:
            break
        for part, draws in ((1.0, 1), (0.25, DRAWS)):
            lagrangian.layer_sample = part
            for _ in range(draws):
                sums[part] = sums[part] + lagrangian.terms(inputs, target).distances[1:] / draws
    by_layer: list[float] = (sums[0.25] / sums[1.0] - 1).tolist()
    return by_layer


def main() -> None:
    cells = Cells("sampling", CELLS)
    cells.main(__doc__)
    path = ROOT / "results" / "sampling.json"
    if not path.exists():
        return
    stored = json.loads(path.read_text())
    results = {**stored}
    results["multipliers"] = compare(results["cells"])
    table = Table(title="layer multipliers after the last epoch: whole batch against a quarter")
    for heading in ("seed", "mean, whole", "mean, a quarter", "correlation", "largest difference"):
        table.add_column(heading)
    for row in results["multipliers"]:
        table.add_row(str(row["seed"]), *(f"{value:.4f}" for key, value in row.items() if key != "seed"))
    console = PlainConsole()
    console.print(table)
    first = ROOT / "runs" / "sampling" / "whole-batch-0"
    if (first / "summary.json").exists():
        results["bias"] = bias(Run.open(first))
        mean = sum(results["bias"]) / len(results["bias"])
        low, high = min(results["bias"]), max(results["bias"])
        console.print(f"bias of a quarter's estimate over layers: mean {mean:+.1%}, from {low:+.1%} to {high:+.1%}")
    if results != stored:
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
