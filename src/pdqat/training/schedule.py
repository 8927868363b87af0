"""The learning rate over a training, and the target of flip-rate control.

steps       the initial rate, decayed at every milestone: constant within an epoch (the paper)
one-cycle   up in a line from WARM_UP_START of the rate in the first WARM_UP of the epochs, then down to 0 in half a
            cosine: for short trainings, with a larger rate
"""

import math

from pdqat.training.settings import Schedule, Settings

WARM_UP = 0.2
WARM_UP_START = 0.1


def learning_rate(settings: Settings, epoch: float) -> float:
    """The rate after so many epochs, whole or in part."""
    if settings.schedule is Schedule.STEPS:
        passed = sum(epoch >= max(1, round(part * settings.epochs)) for part in settings.milestones)
        return float(settings.lr * settings.decay**passed)
    done = epoch / settings.epochs
    if done < WARM_UP:
        return settings.lr * (WARM_UP_START + (1 - WARM_UP_START) * done / WARM_UP)
    return settings.lr * 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


def flip_target(settings: Settings, epoch: float) -> float:
    """Of flip-rate control after so many epochs: `flip_rate` after the warm-up, then in a line to 0 at the end."""
    assert settings.flip_rate is not None
    return settings.flip_rate * (settings.epochs - epoch) / (settings.epochs - settings.warm_epochs)
