"""Accuracy where classes stand first or last, and where some labels are none."""

import pytest
import torch
import torch.nn.functional as F

from pdqat import InputError
from pdqat.metric import metric_for


def scores(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


def test_classes_stand_where_the_labels_say() -> None:
    words = scores(2, 3, 5)
    words[..., 4] = 1
    labels = torch.tensor([[4, 4, 0], [4, 0, 0]])
    accuracy = metric_for(None, F.cross_entropy, words, labels)
    assert accuracy.name == "accuracy"
    torch.testing.assert_close(accuracy.of(words, labels), torch.tensor([2 / 3, 1 / 3], dtype=torch.float64))
    pixels = words.transpose(1, 2)
    assert float(metric_for("accuracy", F.cross_entropy, pixels, labels).total(pixels, labels, 2)) == pytest.approx(1.0)


def test_where_both_dimensions_fit_the_one_that_is_said_counts() -> None:
    square, labels = scores(2, 3, 3), torch.zeros(2, 3, dtype=torch.long)
    square[:, 0] = 1  # class 0 everywhere, if classes stand in dimension 1
    assert float(metric_for(None, F.cross_entropy, square, labels).total(square, labels, 2)) == 2
    last = metric_for(None, F.cross_entropy, square, labels + 1, class_dim=2)
    assert float(last.total(square, labels + 1, 2)) == 0


def test_labels_below_zero_are_not_counted() -> None:
    words = scores(2, 4, 5)
    words[..., 1] = 1
    labels = torch.tensor([[1, 0, -100, -100], [1, 1, 1, -100]])
    accuracy = metric_for(None, F.cross_entropy, words, labels)
    torch.testing.assert_close(accuracy.of(words, labels), torch.tensor([0.5, 1.0], dtype=torch.float64))


def test_numbers_are_judged_by_the_loss_and_have_no_accuracy() -> None:
    output, target = scores(4, 3), torch.rand(4, 3)
    assert metric_for(None, F.mse_loss, output, target).name == "task_loss"
    with pytest.raises(InputError, match="accuracy is for targets that are class labels"):
        metric_for("accuracy", F.mse_loss, output, target)
