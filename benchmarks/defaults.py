"""The measurements behind the defaults: norms, gradients and layer distances at 2 bits on CIFAR-10.

    python benchmarks/defaults.py --jobs 2      trains what is missing below runs/defaults, then prints the table
    python benchmarks/defaults.py --table       prints the table of what is finished

Cells can be stopped and continued at any point. The numbers go to results/defaults.json.
"""

from cells import RELATIVE, Cells

SQUARED = ["--layer-distance", "squared", "--layer-tolerance", "0.055"]
CELLS = {
    "relative, norm ste": [*RELATIVE, "--norm", "ste"],
    "relative, norm exact": [*RELATIVE, "--norm", "exact"],
    "squared, norm ste": [*SQUARED, "--norm", "ste"],
    "relative, straight-through": [*RELATIVE, "--gradient", "straight-through"],
    "DoReFa baseline": ["--method", "ste"],
    "relative, norm tied": [*RELATIVE, "--norm", "tied"],
    "output only, norm ste": ["--method", "pdqat-output", "--norm", "ste"],
    "squared, norm exact": [*SQUARED, "--norm", "exact"],
    "relative, norm ste, kl": [*RELATIVE, "--output-distance", "kl"],
}

if __name__ == "__main__":
    Cells("defaults", CELLS).main(__doc__)
