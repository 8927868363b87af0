"""A target's limits are what its format refuses, no more and no less."""

from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pdqat import Lagrangian, allocate, export, prepare
from pdqat.deployment.limits import check_runs, run_by
from pdqat.errors import InputError
from pdqat.precision import MIXED, BitPlan, Precision

X, Y = torch.rand(16, 4), torch.arange(16) % 2
CANDIDATES = [Precision(bits, bits) for bits in (2, 7, 8)]


def problem(quantizer: str) -> Lagrangian:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    return Lagrangian(prepare(model.eval(), X, bits=2, quantizer=quantizer), F.cross_entropy)


@pytest.mark.parametrize(("target", "quantizer"), [("onnx", "dorefa"), ("c", "uniform")])
def test_every_plan_within_the_limits_is_written_and_no_other(target: str, quantizer: str) -> None:
    of = problem(quantizer)
    allowed = run_by(of, target, X, CANDIDATES)
    for choice in product(CANDIDATES, repeat=len(allowed)):
        plan = BitPlan(MIXED, dict(zip(allowed, choice, strict=True)))
        if all(plan[layer] in precisions for layer, precisions in allowed.items()):
            check_runs(of, plan, target, X)
        else:
            with pytest.raises(InputError, match="can't be exported"):
                check_runs(of, plan, target, X)


def test_bytes_are_too_small_for_eight_bits_of_dorefa() -> None:
    assert set(map(tuple, run_by(problem("dorefa"), "onnx", X, CANDIDATES).values())) == {tuple(CANDIDATES[:2])}


def test_a_plan_for_a_target_is_exported(tmp_path: Path) -> None:
    of = problem("dorefa")
    allowed = run_by(of, "onnx", X, CANDIDATES)
    plan = allocate(of, [(X, Y)], "8 bits", bits=CANDIDATES, by="distance", allowed=allowed)
    assert set(plan.precisions.values()) <= set(CANDIDATES[:2])
    assert export(of.under_plan(plan).net, tmp_path / "model.onnx", X, check=[(X, Y)]).bytes > 0


def test_a_layer_that_runs_at_nothing_is_named() -> None:
    with pytest.raises(InputError, match="the target onnx runs 3 at none of these precisions: layer"):
        run_by(problem("dorefa"), "onnx", X, CANDIDATES[2:])


def test_a_pin_that_the_target_does_not_run_is_refused() -> None:
    of = problem("dorefa")
    allowed = run_by(of, "onnx", X, CANDIDATES)
    with pytest.raises(InputError, match="layer '3' can't have 8 bits in this target, only 2, 7"):
        allocate(of, [(X, Y)], "8 bits", bits=CANDIDATES, by="distance", pin={"3": 8}, allowed=allowed)


def test_a_target_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="unknown target 'tape'; choose one of onnx"):
        run_by(problem("dorefa"), "tape", X, CANDIDATES)
