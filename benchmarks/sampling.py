"""Whether layer distances may be estimated on a part of each batch: accuracy and multipliers at 2 bits on CIFAR-10.

    python benchmarks/sampling.py --jobs 2 --seeds 3    trains what is missing below runs/sampling, prints the table
    python benchmarks/sampling.py --seeds 3 --table     prints the table of what is finished

The seeds are the same for both. Cells can be stopped and continued at any point. The numbers go to
results/sampling.json.
"""

from cells import RELATIVE, Cells

CELLS = {
    "whole batch": [*RELATIVE, "--layer-sample", "1"],
    "a quarter": [*RELATIVE, "--layer-sample", "0.25"],
}

if __name__ == "__main__":
    Cells("sampling", CELLS).main(__doc__)
