"""The learning rate over a training."""

import pytest

from pdqat.training.schedule import learning_rate
from pdqat.training.settings import Schedule, Settings


def test_the_learning_rate_steps_at_epochs_50_75_and_90_of_100() -> None:
    settings = Settings(epochs=100)
    rates = [learning_rate(settings, epoch) for epoch in range(100)]
    assert rates == pytest.approx([1e-3] * 50 + [1e-4] * 25 + [1e-5] * 15 + [1e-6] * 10)


@pytest.mark.parametrize(
    ("epochs", "steps_at"), [(1, []), (2, [1]), (3, [2]), (4, [2, 3]), (10, [5, 8, 9]), (60, [30, 45, 54])]
)
def test_in_shorter_runs_milestones_round_to_whole_epochs(epochs: int, steps_at: list[int]) -> None:
    settings = Settings(epochs=epochs)
    rates = [learning_rate(settings, epoch) for epoch in range(epochs)]
    assert [epoch for epoch in range(1, epochs) if rates[epoch] < rates[epoch - 1]] == steps_at
    assert rates[0] == settings.lr


def test_one_cycle_goes_up_in_a_line_and_down_in_a_cosine_to_nothing() -> None:
    settings = Settings(epochs=10, lr=0.02, schedule=Schedule.ONE_CYCLE)
    assert [learning_rate(settings, epoch) for epoch in (0, 1, 2, 6, 10)] == pytest.approx(
        [0.002, 0.011, 0.02, 0.01, 0]
    )
    rates = [learning_rate(settings, step / 100) for step in range(1001)]
    assert rates.index(max(rates)) == 200
    assert rates[:201] == sorted(rates[:201])
    assert rates[200:] == sorted(rates[200:], reverse=True)
