"""`pdqat train --from RUN` trains on the network of the run, whatever the new plan leaves out."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from pdqat.cli import main
from pdqat.sensitivity.subject import Subject
from pdqat.training import Run

STANDING_STILL = ["--epochs", "1", "--lr", "1e-30", "--dual-rate", "0"]
KEPT = "stages.1.0.conv0"


def layers_of(run: Run) -> list[str]:
    return list(run.summary()["plans"]["2-bit"])


def write(path: Path, layers: dict[str, str]) -> str:
    path.write_text("[layers]\n" + "".join(f"'{layer}' = '{bits}'\n" for layer, bits in layers.items()))
    return str(path)


def full_weight(run: Run) -> Tensor:
    """What the full-precision view computes the layer with."""
    return Subject.of_run(run, 1).net.layers[KEPT].full_weight().detach()


@pytest.mark.parametrize("by", ["plan", "layers"])
def test_a_layer_that_is_left_out_stays_what_it_was_in_full_precision(
    relative_run: Run, tmp_path: Path, by: str
) -> None:
    rest = {layer: "2" for layer in layers_of(relative_run) if layer != KEPT}
    flags = {
        "plan": ["--plan", write(tmp_path / "plan.toml", rest)],
        "layers": ["--layers", f"{KEPT}=full"],
    }
    common = ["train", "--from", str(relative_run.path), *STANDING_STILL, "--out", str(tmp_path / "run")]
    assert main([*common, *flags[by]]) == 0
    run = Run.open(tmp_path / "run")
    torch.testing.assert_close(full_weight(run), full_weight(relative_run))
    assert next(iter(run.summary()["plans"].values())) == {**dict.fromkeys(layers_of(relative_run), "2"), KEPT: "full"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--layers", "stem=8"], "did not quantise the layer stem: to read its weights in low precision would make"),
        (["--layers", f"{KEPT}=full", "--bits", "2", "4"], f"quantises the layer {KEPT}: to leave it out would make"),
        (["--layers", f"{KEPT}=full", "--budget", "3 bits", "--epochs", "2"], "name it in a plan, as 'full' if it is"),
    ],
)
def test_what_would_make_another_network_of_it_is_refused(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], sentence: str
) -> None:
    out = tmp_path / "run"
    # two plans can't take over the norms of one, so they start from full precision
    source = full_precision_run(tmp_path) if "--bits" in flags else relative_run
    assert main(["train", "--from", str(source.path), *flags, "--out", str(out)]) == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def full_precision_run(folder: Path) -> Run:
    small = ["--train-images", "128", "--batch-size", "64", "--epochs", "1"]
    assert main(["train", *small, "--method", "full", "--out", str(folder / "full")]) == 0
    return Run.open(folder / "full")


def test_under_a_budget_layers_are_pinned_beside_a_plan(relative_run: Run, tmp_path: Path) -> None:
    start = write(tmp_path / "plan.toml", dict.fromkeys(layers_of(relative_run), "2"))
    arguments = ["--plan", start, "--budget", "3 bits", "--layers", f"{KEPT}=2", "--epochs", "2"]
    assert main(["train", "--from", str(relative_run.path), *arguments, "--out", str(tmp_path / "run")]) == 0
    plan = Run.open(tmp_path / "run").summary()["plans"]["mixed"]
    assert plan[KEPT] == "2"
    assert set(plan.values()) != {"2"}, "others were raised"


def test_layers_in_a_file_beside_a_plan_are_refused(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write(tmp_path / "plan.toml", dict.fromkeys(layers_of(relative_run), "2"))
    (tmp_path / "config.toml").write_text(f"[layers]\n'{KEPT}' = '8'\n")
    assert main(["train", "--plan", plan, "--config", str(tmp_path / "config.toml"), "--out", str(tmp_path / "x")]) == 2
    assert "--plan names the precision of each layer: give no --layers with it" in capsys.readouterr().err
