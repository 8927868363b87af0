"""What the paper reports, in per cent of test images unless said otherwise: mean and standard deviation of 5 runs."""

from pdqat.config.train_config import Method

BASELINE, OUTPUT, LAYERS, FULL = Method.STE, Method.PDQAT_OUTPUT, Method.PDQAT_LAYERS, Method.FULL

TABLE_1: dict[tuple[int, Method], tuple[float, float]] = {
    (32, FULL): (91.50, 0.26),
    (8, BASELINE): (91.34, 0.24),
    (8, OUTPUT): (91.51, 0.27),
    (8, LAYERS): (91.47, 0.13),
    (4, BASELINE): (91.38, 0.16),
    (4, OUTPUT): (91.20, 0.14),
    (4, LAYERS): (91.48, 0.23),
    (2, BASELINE): (89.38, 0.34),
    (2, OUTPUT): (89.43, 0.24),
    (2, LAYERS): (89.63, 0.14),
    (1, BASELINE): (84.91, 0.36),
    (1, OUTPUT): (85.29, 0.27),
    (1, LAYERS): (85.52, 0.33),
}

OUTPUT_ABLATION: dict[tuple[int, float], float] = {
    (4, 0.1): 91.39,
    (4, 0.2): 91.33,
    (4, 0.7): 91.27,
    (2, 0.05): 89.00,
    (2, 0.2): 89.44,
    (2, 0.7): 89.50,
    (1, 0.5): 84.08,
    (1, 0.8): 85.33,
    (1, 1.5): 85.37,
}
LAYER_ABLATION: dict[tuple[int, float], float] = {
    (4, 0.082): 91.39,
    (4, 0.16): 91.38,
    (4, 0.25): 91.48,
    (2, 0.055): 89.54,
    (2, 0.25): 89.58,
    (2, 0.67): 89.67,
    (1, 0.0125): 83.5,
    (1, 0.25): 85.19,
    (1, 1.0): 85.40,
}
"""By bits and tolerance."""

LAYER_DISTANCES: dict[str, tuple[float, float]] = {
    "stages.2.1.conv0": (0.180, 0.040),
    "stages.2.1.conv1": (0.105, 0.015),
    "stages.2.2.conv0": (0.137, 0.031),
    "stages.2.2.conv1": (0.081, 0.019),
}
"""Figure 1a, 1 bit: mean squared error with the output constraint only, and with layer constraints of 0.0125."""

FIGURE_1_MULTIPLIERS: dict[str, float] = {
    "stages.1.0.shortcut.conv": 0.069,
    "stages.2.0.shortcut.conv": 0.060,
    "stages.0.0.conv0": 0.060,
    "stages.0.1.conv0": 0.051,
    "stages.1.0.conv0": 0.050,
    "stages.1.1.conv0": 0.047,
    "stages.2.0.conv0": 0.046,
    "stages.0.2.conv0": 0.045,
    "stages.2.1.conv0": 0.044,
    "stages.1.2.conv0": 0.042,
    "stages.0.0.conv1": 0.035,
    "stages.2.0.conv1": 0.033,
    "stages.2.2.conv0": 0.033,
    "stages.0.1.conv1": 0.030,
    "stages.1.1.conv1": 0.030,
    "stages.0.2.conv1": 0.028,
    "stages.1.0.conv1": 0.028,
    "stages.1.2.conv1": 0.026,
    "stages.2.1.conv1": 0.023,
    "stages.2.2.conv1": 0.020,
}
"""By which the layers of figures 1b and 1c were chosen: 1 bit, layer tolerance 0.0125, mean over seeds."""

KEPT_LAYERS: dict[tuple[int, bool], tuple[float, float, float]] = {
    (1, True): (0.069, 91.4, 85.7),
    (2, True): (0.130, 91.9, 85.5),
    (4, True): (0.240, 94.2, 87.4),
    (8, True): (0.428, 95.8, 87.9),
    (1, False): (0.020, 91.0, 85.6),
    (2, False): (0.043, 90.9, 85.6),
    (4, False): (0.096, 91.8, 86.0),
    (8, False): (0.217, 92.9, 86.3),
}
"""Figures 1b and 1c, 1 bit: by number of layers kept in full precision and whether they are those of the largest
multipliers, the sum of their multipliers, train accuracy and test accuracy."""
