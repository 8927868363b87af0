"""Networks of other people, from their own packages, through the whole road to a verified file."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from pdqat.layers.interface import Interface

EXAMPLE = Path(__file__).parents[1] / "examples" / "other_networks.py"
PAGE = Path(__file__).parents[1] / "docs" / "models.md"


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("other_networks", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


other_networks = _example()


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("name", other_networks.NETWORKS)
def test_a_network_goes_the_whole_road(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = other_networks.NETWORKS[name][1]()
    interface = Interface.of(network.model, network.inputs)
    args, kwargs = interface.arguments(network.inputs)
    file = tmp_path / "model.onnx"
    result = other_networks.go(network, file)
    assert file.is_file()
    assert result.report.verified
    assert all(verified.passes for verified in result.report.verified)
    assert {verified.runtime for verified in result.report.verified} >= {"onnxruntime"}
    assert set(result.plan.values()) <= {"2", "4", "8"}
    assert result.coverage.of_weights > 0.5
    said = PAGE.read_text()
    for layer, reason in result.coverage.left_alone.items():
        assert f"| `{layer or 'the model itself'}` | {reason} |" in said, "the page is made anew by the example"
    with torch.no_grad():
        low: Tensor = interface.compared(result.low.eval()(*args, **kwargs))
    assert low.isfinite().all()
