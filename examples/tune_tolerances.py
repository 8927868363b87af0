"""Optuna over tolerances: which ones give the most accuracy in low precision?

    python examples/tune_tolerances.py [trials]

Tolerances are the one thing that a constrained problem asks of a person. Here Optuna chooses that of the output and
that of all layers, and is told the validation accuracy of the low-precision view after every epoch, so that it can give
up on hopeless trials. Needs `pip install 'pdqat[data,examples]'`; takes about a minute on one core for ten trials.
"""

import copy
import sys
from typing import Any

import optuna
import torch
import torch.nn.functional as F
from own_model import convolutional, digits, pretrain

import pdqat
from pdqat.training.callbacks import Callback


class Told(Callback):
    """Tells a trial how its training goes, and ends it where that is hopeless."""

    def __init__(self, trial: optuna.Trial) -> None:
        self._trial = trial

    def epoch(self, entry: dict[str, Any]) -> None:
        self._trial.report(entry["accuracy"]["2-bit"], entry["epoch"])
        if self._trial.should_prune():
            raise optuna.TrialPruned


def main(trials: int = 10, epochs: int = 3) -> optuna.Study:
    torch.manual_seed(0)
    train_loader, validation_loader = digits()
    pretrained = convolutional()
    pretrain(pretrained, train_loader, epochs=3)
    example, _ = next(iter(validation_loader))

    def accuracy(trial: optuna.Trial) -> float:
        constraints = [
            pdqat.OutputConstraint(tolerance=trial.suggest_float("output", 1e-3, 1.0, log=True)),
            pdqat.LayerConstraint(tolerance=trial.suggest_float("layers", 1e-2, 1.0, log=True)),
        ]
        net = pdqat.prepare(copy.deepcopy(pretrained), example, bits=2)
        problem = pdqat.Lagrangian(net, F.cross_entropy, constraints)
        callbacks = [Told(trial)]
        options: dict[str, Any] = {"epochs": epochs, "lr": 3e-3, "progress": False, "callbacks": callbacks}
        history = pdqat.fit(problem, train_loader, validation=validation_loader, **options)
        return float(history.scores["2-bit"]["validation"])

    sampler = optuna.samplers.TPESampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=optuna.pruners.MedianPruner())
    study.optimize(accuracy, n_trials=trials)
    print(f"best: {study.best_value:.2%} with {study.best_params}")
    return study


if __name__ == "__main__":
    main(*(int(count) for count in sys.argv[1:2]))
