"""examples/own_model.py runs as it stands, for every kind of model in it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import onnxruntime
import pytest
import torch

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_model.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_model", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["convolutional", "perceptron", "one-dimensional"])
def test_an_own_model_goes_the_whole_road(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_model = example()
    file = tmp_path / "model.onnx"
    own_model.main(kind, file, pretraining=1, epochs=(2, 1))
    printed = capsys.readouterr().out
    for words in ("full precision", "4-bit", "layers by dual", "without training", "bits of 3 bits", "pass"):
        assert words in printed
    _, validation = own_model.digits()
    images, _ = next(iter(validation))
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    assert scores.shape == (len(images), 10)
    assert torch.from_numpy(scores).isfinite().all()


def test_the_readme_shows_the_same_road() -> None:
    """Every call of the README's example stands in the file that runs."""
    readme = (EXAMPLE.parents[1] / "README.md").read_text(encoding="utf-8")
    source = EXAMPLE.read_text(encoding="utf-8")
    for call in ("prepare", "Lagrangian", "fit", "rank", "allocate", "export"):
        assert f"pdqat.{call}(" in readme
        assert f"pdqat.{call}(" in source
    assert "problem = problem.under_plan(plan)" in readme
    assert "problem = problem.under_plan(plan)" in source
