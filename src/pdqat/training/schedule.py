"""The learning rate over a run.

steps       the initial rate, decayed at every milestone: constant within an epoch (the paper)
one-cycle   up in a line from WARM_UP_START of the rate in the first WARM_UP of the run, then down to 0 in half a
            cosine: for short trainings, with a larger rate
"""

import math

from pdqat.training.config import Schedule, TrainConfig

WARM_UP = 0.2
WARM_UP_START = 0.1


def learning_rate(config: TrainConfig, epoch: float) -> float:
    """The rate after so many epochs, whole or in part."""
    if config.schedule is Schedule.STEPS:
        passed = sum(epoch >= max(1, round(part * config.epochs)) for part in config.milestones)
        return float(config.lr * config.decay**passed)
    done = epoch / config.epochs
    if done < WARM_UP:
        return config.lr * (WARM_UP_START + (1 - WARM_UP_START) * done / WARM_UP)
    return config.lr * 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))
