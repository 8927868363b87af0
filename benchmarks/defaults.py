"""The measurements behind the defaults: norms, gradients and layer distances at 2 bits on CIFAR-10.

    python benchmarks/defaults.py --jobs 2      trains what is missing below runs/defaults, then prints the table
    python benchmarks/defaults.py --table       prints the table of what is finished

Cells can be stopped and continued at any point. The numbers go to results/defaults.json.
"""

from cells import CONSTRAINED, RELATIVE, Cells

SQUARED = [*CONSTRAINED, "--layer-distance", "squared", "--layer-tolerance", "0.055"]
# "norm ste" is gradient "norms", as the results call it: norms of low precision follow a straight-through gradient.
CELLS = {
    "relative, norm ste": [*RELATIVE, "--gradient", "norms"],
    "relative, norm exact": [*RELATIVE, "--gradient", "exact"],
    "squared, norm ste": [*SQUARED, "--gradient", "norms"],
    "relative, straight-through": [*RELATIVE, "--gradient", "straight-through"],
    "DoReFa baseline": ["--method", "ste"],
    "relative, norm tied": [*RELATIVE, "--gradient", "exact", "--tied-norms"],
    "output only, norm ste": [*CONSTRAINED, "--method", "pdqat-output", "--gradient", "norms"],
    "squared, norm exact": [*SQUARED, "--gradient", "exact"],
    "relative, norm ste, kl": [*RELATIVE, "--gradient", "norms", "--output-distance", "kl"],
}

if __name__ == "__main__":
    Cells("defaults", CELLS).main(__doc__)
