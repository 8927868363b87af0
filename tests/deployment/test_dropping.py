"""Files of networks whose plan drops a residual branch: verified, and without the branch."""

from pathlib import Path

import onnx
import pytest
import torch
from onnx import numpy_helper

from deployed_networks import images, labelled, small_preresnet, small_resnet, trained_like
from pdqat import InputError, Network, prepare
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.export import export
from pdqat.deployment.limits import run_by
from pdqat.precision import DROPPED, Precision
from pdqat.task import TaskProblem

GONE = ["stages.1.0.conv0", "stages.1.0.conv1"]


def network(kind: str, quantizer: str = "dorefa", drop: bool = True) -> Network:
    torch.manual_seed(0)
    model = small_preresnet() if kind == "preresnet" else small_resnet()
    rules = {"stages.1.0.conv1": 0} if drop else {}
    return trained_like(prepare(model, images(8), bits=2, layers=rules, quantizer=quantizer), 1)


@pytest.mark.parametrize("kind", ["preresnet", "resnet"])
@pytest.mark.parametrize("name", ["model.onnx", "c"])
def test_a_file_without_the_branch_is_verified(kind: str, name: str, tmp_path: Path) -> None:
    net = network(kind)
    form = "c" if name == "c" else None
    report = export(net, tmp_path / name, images(2), check=labelled(net, images(16)), format=form)
    assert report.verified
    assert all(result.passes for result in report.verified)
    if name == "c":
        return
    stored = [numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / name).graph.initializer]
    whole = network(kind, drop=False)
    export(whole, tmp_path / "whole.onnx", images(2), check=labelled(whole, images(16)))
    more = [numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "whole.onnx").graph.initializer]
    weights = sum(net.every_layer[layer].weight.numel() for layer in GONE)
    assert sum(array.size for array in more) - sum(array.size for array in stored) >= weights


@pytest.mark.parametrize("kind", ["preresnet", "resnet"])
def test_the_graph_has_neither_the_branch_nor_its_norms(kind: str) -> None:
    net = network(kind)
    model = Deployable.of(net, None, images(2))
    called = {str(node.target) for node in model.followed.module.graph.nodes if node.op == "call_module"}
    assert not [name for name in called if name in GONE or name == "stages.1.0.norm1"]
    read = dict(model.samples(images(4)).read)
    with torch.no_grad(), model.net.under(model.plan):
        made = model.followed.module(*read.values())
    torch.testing.assert_close(made, model.simulated(images(4)), rtol=0, atol=1e-5)


def test_a_target_runs_0_bits_at_the_end_of_branches_only() -> None:
    net = network("preresnet", drop=False)
    problem = TaskProblem(net, torch.nn.functional.cross_entropy)
    allowed = run_by(problem, "onnx", images(2), [DROPPED, Precision(2, 2)])
    assert {layer for layer, precisions in allowed.items() if DROPPED in precisions} == {
        f"stages.{stage}.0.conv1" for stage in range(3)
    }


def test_what_can_not_be_left_out_is_named() -> None:
    net = network("preresnet")
    object.__setattr__(net.preparation, "branches", {})
    with pytest.raises(InputError, match=r"can't export without .*stages\.1\.0\.conv0, which the plan drops"):
        _ = Deployable.of(net, None, images(2)).followed
