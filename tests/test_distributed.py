"""Several processes that share batches compute what one process computes of all of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from process_group import run_in
from shared_problems import (
    evaluations,
    gradients,
    gradients_in_float32,
    gradients_in_training,
    gradients_of_the_task,
    logs,
    multipliers,
    own_norms,
    random_epochs,
    refusals,
    resumed,
    statistics,
    trainings,
)

LIKE_ONE_PROCESS = {
    gradients: 1e-12,
    gradients_of_the_task: 1e-12,
    gradients_in_training: 1e-12,
    multipliers: 1e-12,
    statistics: 1e-12,
    trainings: 1e-7,
    evaluations: 0.0,
    random_epochs: 0.0,
}
"""How far apart they may be, relative to the largest number of a tensor."""
CHECKS = [*LIKE_ONE_PROCESS, gradients_in_float32, resumed, logs, own_norms, refusals]


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Of every check in every process."""
    return run_in(request.param, CHECKS, tmp_path_factory.mktemp("group"))


@pytest.mark.parametrize("check", LIKE_ONE_PROCESS, ids=lambda check: check.__name__)
def test_like_one_process(check: Any, results: dict[str, list[Any]], tmp_path: Path) -> None:
    expected = check(tmp_path)
    for found in results[check.__name__]:
        assert_close(found, expected, LIKE_ONE_PROCESS[check])


def test_gradients_in_float32(results: dict[str, list[Any]], tmp_path: Path) -> None:
    """By the length of the whole gradient: single entries are lost to rounding in one process just as far."""
    expected = gradients_in_float32(tmp_path)
    for found in results["gradients_in_float32"]:
        assert found.keys() == expected.keys()
        for name, one in expected.items():
            assert relative_error(found[name], one) < 1e-6, name


def relative_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    ours, theirs = (torch.cat([it[key].double().flatten() for key in expected]) for it in (found, expected))
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("check", [multipliers, trainings, own_norms, evaluations], ids=lambda check: check.__name__)
def test_all_processes_have_the_same_to_the_bit(check: Any, results: dict[str, list[Any]]) -> None:
    first, *others = results[check.__name__]
    for other in others:
        assert_close(other, first, 0.0)


def test_only_the_first_process_logs(results: dict[str, list[Any]], tmp_path: Path) -> None:
    first, *others = results["logs"]
    assert first == logs(tmp_path) != []
    assert others == [[] for _ in others]


def test_gradients_without_a_part_for_low_precision_are_zero(results: dict[str, list[Any]]) -> None:
    alone = results["gradients"][0]["layers alone, full"]
    assert any(gradient.any() for gradient in alone.values())
    assert any("views" in name and not gradient.any() for name, gradient in alone.items())


def test_a_resumed_training_gives_the_same_numbers(results: dict[str, list[Any]]) -> None:
    first, *others = results["resumed"]
    assert {"best.pt", "last.pt", "metrics.jsonl", "summary.json"} <= set(first)
    assert others == [[]] * len(others)


def test_every_process_hears_of_bad_input(results: dict[str, list[Any]]) -> None:
    for said in results["refusals"]:
        assert "DistributedSampler, which repeats some" in said["validation"]
        assert "different batches" in said["different"]
        assert "a batch of 1 can't be shared by" in said["small"]
        assert "exists" in said["folder"]
        assert "compile is for one process" in said["compile"]
        assert "not a number" in said["loss"]


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    """In all numbers of a structure."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key], tolerance)
    elif isinstance(expected, list | tuple):
        for pair in zip(found, expected, strict=True):
            assert_close(*pair, tolerance)
    elif tolerance == 0:
        torch.testing.assert_close(torch.as_tensor(found), torch.as_tensor(expected), rtol=0, atol=0)
    else:
        found, expected = torch.as_tensor(found).double(), torch.as_tensor(expected).double()
        size = float(expected.abs().max()) if expected.numel() else 0.0
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * max(size, 1.0))
