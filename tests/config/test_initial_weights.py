"""`--init FILE`: training starts from the weights in a file."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from configured import build, small, train
from pdqat import models
from pdqat.batches import pairs
from pdqat.errors import InputError
from pdqat.runs.checkpoints import load_checkpoint


def trained_model() -> nn.Module:
    """A plain model whose every weight and statistic differs from those of a new one."""
    torch.manual_seed(77)
    model = models.build("preresnet-small", 1, 10, (1, 8, 8))
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.add_(torch.rand_like(value))
        else:
            value.fill_(1234)
    return model


@pytest.fixture
def weights() -> dict[str, Tensor]:
    return trained_model().state_dict()


def save(weights: dict[str, Tensor], path: Path) -> Path:
    if path.suffix == ".safetensors":
        save_file(weights, path)
    else:
        torch.save(weights, path)
    return path


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_the_network_starts_from_a_plain_models_weights(tmp_path: Path, weights: dict[str, Tensor], name: str) -> None:
    built = build(small(bits=["2", "4"], init=str(save(weights, tmp_path / name))))
    state = built.problem.net.state_dict()
    assert all(torch.equal(state[key], value) for key, value in weights.items())
    for view in ("2-bit", "4-bit"):
        for kind in ("weight", "bias", "running_mean", "running_var"):
            assert torch.equal(state[f"norm.views.{view}.{kind}"], weights[f"norm.{kind}"]), "each view starts from it"


def test_the_full_precision_view_computes_what_the_plain_model_does(tmp_path: Path, weights: dict[str, Tensor]) -> None:
    """With the uniform quantiser, whose limit for many bits is the weight itself."""
    built = build(small(quantizer="uniform", init=str(save(weights, tmp_path / "model.pt"))))
    images, _ = next(pairs(built.loaders.validation))
    plain = trained_model().eval()
    with torch.no_grad():
        torch.testing.assert_close(built.problem.net.eval()(images), plain(images))


def test_learned_steps_start_from_the_given_weights(tmp_path: Path, weights: dict[str, Tensor]) -> None:
    """LSQ starts a step at 2 mean|w| / sqrt(p), with p = 7 at 4 bits."""
    built = build(small(method="ste", quantizer="lsq", bits=["4"], init=str(save(weights, tmp_path / "model.pt"))))
    key = "stages.0.0.conv0"
    step = built.problem.net.state_dict()[f"{key}.views.4-bit.weight.step"]
    torch.testing.assert_close(step, 2 * weights[f"{key}.weight"].abs().mean() / 7**0.5)


def test_a_run_can_start_from_another_runs_checkpoint(tmp_path: Path) -> None:
    first = train(tmp_path / "first", small(epochs=1, bits=["4"]))
    built = build(small(bits=["2", "w4a8"], init=str(first.best)))
    state = built.problem.net.state_dict()
    for key, value in load_checkpoint(first.best)["model"].items():
        if ".views." not in key:
            assert torch.equal(state[key], value)
    assert torch.equal(state["norm.views.2-bit.running_mean"], state["norm.running_mean"])


def test_a_continued_run_keeps_what_it_learned(tmp_path: Path) -> None:
    path = save(trained_model().state_dict(), tmp_path / "model.pt")
    config = small(epochs=1, init=str(path))
    run = train(tmp_path / "run", config)
    before = load_checkpoint(run.last)["model"]
    run.summary_file.unlink()
    train(run.path)
    after = load_checkpoint(run.last)["model"]
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not torch.equal(before["head.weight"], torch.load(path, weights_only=True)["head.weight"])


@pytest.mark.parametrize(("model", "width"), [("preresnet-small", 2), ("preresnet20", 1), ("resnet20", 1)])
def test_weights_of_another_architecture_are_refused(
    tmp_path: Path, weights: dict[str, Tensor], model: str, width: int
) -> None:
    path = save(weights, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"the weights in .*model.safetensors do not fit the model: ") as refusal:
        build(small(model=model, width=width, init=str(path)))
    assert re.search("size mismatch|Missing key|Unexpected key", str(refusal.value))


def test_weights_with_other_names_are_refused(tmp_path: Path, weights: dict[str, Tensor]) -> None:
    wrapped = {f"module.{key}": value for key, value in weights.items()}
    with pytest.raises(InputError, match=r'do not fit the model: Missing key\(s\) in state_dict: "stem.weight"'):
        build(small(init=str(save(wrapped, tmp_path / "model.pt"))))
