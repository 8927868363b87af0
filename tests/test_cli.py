import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from rich.console import Console

from pdqat import models
from pdqat.cli import main
from pdqat.data.cifar_files import CIFAR10_BINARY
from pdqat.terminal import TrainingProgress, percent
from pdqat.training import Run, TrainConfig

TINY = ["--train-images", "64", "--batch-size", "32"]
OPTIONS = [f"--{each.name.replace('_', '-')}" for each in dataclasses.fields(TrainConfig)]


def pdqat(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does."""
    command = [sys.executable, "-m", "pdqat.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclasses.dataclass
class Finished:
    """A run that the command made, and what it printed."""

    run: Run
    output: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("cli") / "finished"
    done = pdqat("train", "--epochs", "2", "--bits", "2", "w4a8", *TINY, "--out", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return Finished(Run.open(folder), done.stdout)


@pytest.fixture
def run(finished: Finished, tmp_path: Path) -> Run:
    """A copy of a finished run, to do what one likes with."""
    return Run.open(shutil.copytree(finished.run.path, tmp_path / "run"))


@pytest.fixture
def unfinished(run: Run) -> Run:
    run.summary_file.unlink()
    return run


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line that the command says instead of doing anything."""
    capsys.readouterr()
    assert main([str(each) for each in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("pdqat: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_training_ends_with_tables_of_accuracy_and_constraints_and_the_run_folder(finished: Finished) -> None:
    summary, output = finished.run.summary(), finished.output
    for view, parts in summary["accuracy"].items():
        name = "full precision" if view == "full" else view
        assert any(
            line.split() == [*name.split(), percent(parts["validation"]), percent(parts["test"])]
            for line in output.splitlines()
        )
    assert output.count("tolerance  distance") == 2, "headings of both views, whole at 80 columns"
    assert len(summary["constraints"]) == 18
    for each in summary["constraints"]:
        _, _, table = output.partition(f"constraints of {each['view']}: mean distance <= tolerance")
        row = next(line.split() for line in table.splitlines() if line.split()[:1] == [each["where"] or "output"])
        numbers = [each[key] for key in ("tolerance", "distance", "slack", "multiplier")]
        assert [float(cell) for cell in row[1:5]] == pytest.approx(numbers, abs=5e-5, rel=0.06)
        assert row[5:] == ["yes" if each["satisfied"] else "no"]
    assert f"run folder: {finished.run.path}\n" in output
    assert "stem: first layer: full precision unless a rule names it" in output
    assert "epoch 1/2 " in output
    assert "epoch 2/2 " in output


def test_the_run_folder_has_the_documented_files(finished: Finished) -> None:
    names = {"config.toml", "metrics.jsonl", "summary.json", "best.pt", "last.pt", ".lock"}
    assert contents(finished.run.path).keys() == names


def test_show_prints_the_final_tables_again(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(finished.run.path)]) == 0
    shown = capsys.readouterr().out
    assert finished.output.endswith(shown)
    assert shown.startswith("accuracy")


def test_show_json_prints_the_summary(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(finished.run.path), "--json"]) == 0
    assert capsys.readouterr().out == finished.run.summary_file.read_text()


def test_eval_measures_what_the_summary_says(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    summary = finished.run.summary()
    for part in ("test", "validation"):
        assert main(["eval", str(finished.run.path), "--part", part, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["part"] == part
        assert found["accuracy"] == {view: parts[part] for view, parts in summary["accuracy"].items()}
    assert found["constraints"] == summary["constraints"], "measured on validation images"


def test_eval_prints_tables(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(finished.run.path)]) == 0
    printed = capsys.readouterr().out
    assert "accuracy on test images" in printed
    assert all(percent(parts["test"]) in printed for parts in finished.run.summary()["accuracy"].values())
    assert all(each["where"] in printed for each in finished.run.summary()["constraints"])


def test_eval_can_take_the_last_state(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(finished.run.path), "--checkpoint", "last", "--part", "validation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == finished.run.metrics()[-1]["accuracy"]


def test_eval_and_resume_do_not_need_the_file_that_training_started_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights, folder = tmp_path / "model.pt", tmp_path / "run"
    torch.save(models.build("preresnet-small", 1, 10, (1, 8, 8)).state_dict(), weights)
    assert main(["train", "--init", str(weights), "--epochs", "1", *TINY, "--out", str(folder)]) == 0
    weights.unlink()
    assert main(["eval", str(folder)]) == 0
    (folder / "summary.json").unlink()
    assert main(["train", "--resume", str(folder)]) == 0
    assert capsys.readouterr().err == ""


def test_flags_override_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('epochs = 9\nlr = 0.02\nmethod = "ste"\nbits = [4]\n\n[layers]\n"stages.0.0.conv0" = "8"\n')
    arguments = ["train", "--config", str(file), "--epochs", "1", *TINY, "--layers", "head=8", "*.conv1=w2a4"]
    assert main([*arguments, "--no-augment", "--milestones", "0.2", "0.4", "--out", str(tmp_path / "run")]) == 0
    config = Run.open(tmp_path / "run").config()
    assert (config.epochs, config.lr, config.method, config.bits) == (1, 0.02, "ste", ["4"])
    assert config.layers == {"head": "8", "*.conv1": "w2a4"}
    assert (config.train_images, config.augment, config.milestones) == (64, False, [0.2, 0.4])


def test_the_configuration_of_a_run_can_be_used_again(finished: Finished, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert main(["train", "--config", str(finished.run.config_file), "--out", str(again)]) == 0
    assert (again / "config.toml").read_bytes() == finished.run.config_file.read_bytes()
    assert (again / "metrics.jsonl").read_bytes() == finished.run.metrics_file.read_bytes()


def test_without_out_a_new_folder_below_runs_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--method", "full", "--epochs", "1", *TINY]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("digits-full-")
    assert (folder / "summary.json").exists()


def test_paths_are_printed_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where they look like markup of the terminal library."""
    folder = tmp_path / "a [bold]name[/nonsense]"
    assert main(["train", "--method", "full", "--epochs", "1", *TINY, "--out", str(folder)]) == 0
    assert f"run folder: {folder}\n" in capsys.readouterr().out


def test_the_table_of_channels_shows_the_worst_of_each_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(["train", "--level", "channel", "--epochs", "1", *TINY, "--out", str(folder)]) == 0
    printed = capsys.readouterr().out
    entry = next(each for each in Run.open(folder).summary()["constraints"] if each["where"] == "stages.2.0.conv1")
    row = next(line for line in printed.splitlines() if line.split()[:1] == ["stages.2.0.conv1"])
    assert "worst channel of each layer" in printed
    assert f"{max(entry['slack']):+.4f}" in row


def test_resume_continues_an_unfinished_run(unfinished: Run, finished: Finished) -> None:
    assert main(["train", "--resume", str(unfinished.path)]) == 0
    assert {**unfinished.summary(), "seconds": 0} == {**finished.run.summary(), "seconds": 0}


@pytest.mark.parametrize(
    ("command", "mentions"),
    [
        ([], ["train", "eval", "show", "data", "--version"]),
        (["train"], ["--config", "--preset", "--out", "--resume", "quickstart", "paper", "--no-augment", *OPTIONS]),
        (["eval"], ["RUN", "--part", "--checkpoint", "--json", "test", "validation", "best", "last"]),
        (["show"], ["RUN", "--json"]),
        (["data"], ["NAME", "--folder", "cifar10", "cifar100", "PDQAT_DATA"]),
    ],
)
def test_help_mentions_every_option(
    capsys: pytest.CaptureFixture[str], command: list[str], mentions: list[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([*command, "--help"])
    assert leaving.value.code == 0
    text = capsys.readouterr().out
    assert [each for each in mentions if each not in text] == []


def test_help_of_train_explains_every_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for each in dataclasses.fields(TrainConfig):
        assert each.metadata["help"] in text
    for shown in ("(default: digits)", "(default: 0.001)", "(default: 0.5 0.75 0.9)", "one of layer, channel, block"):
        assert shown in text


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out.startswith("pdqat 0.")


def test_a_reader_that_goes_away_is_no_error(finished: Finished) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pdqat.cli", "show", str(finished.run.path), "--json"]
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_bad_input_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    done = pdqat("train", "--bits", "9", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("pdqat: bits must hold precisions")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--bitz", "2"], "unrecognized arguments: --bitz 2"),
        (["now"], "unrecognized arguments: now"),
        (["--epochs"], "--epochs: expected one argument"),
        (["--epochs", "few"], "--epochs: a whole number is needed, not 'few'"),
        (["--lr", "fast"], "--lr: a number is needed, not 'fast'"),
        (["--bits", "0"], "bits must hold precisions: a number of bits from 1 to 8"),
        (["--bits", "2", "9"], "not ['2', '9']"),
        (["--bits", "2", "2"], "each plan needs a name of its own"),
        (["--layers", "head"], "--layers takes PATTERN=VALUE, not 'head'"),
        (["--layers", "head=12"], "layers must hold precisions"),
        (["--layers", "*=full"], "the model has nothing to quantise"),
        (["--layers", "haed=4"], "the layer rule 'haed' matches no layer; the layers are stem, "),
        (["--layer-tolerance", "-0.1"], "layer_tolerance must be a number from 0 upwards, not -0.1"),
        (["--layer-tolerance", "nan"], "layer_tolerance must be a number from 0 upwards, not nan"),
        (["--output-tolerance", "inf"], "output_tolerance must be a number from 0 upwards, not inf"),
        (["--tolerances", "*=-1"], "tolerances must be numbers from 0 upwards, not {'*': -1.0}"),
        (["--tolerances", "*=nan"], "tolerances must be numbers from 0 upwards, not {'*': nan}"),
        (["--tolerances", "*=some"], "--tolerances: a number is needed, not 'some'"),
        (["--tolerances", "haed=0.1"], "the tolerance for 'haed' matches no layer; the layers are stages.0.0.conv0, "),
        (["--data", "mnist"], "data must be one of digits, cifar10, cifar100, folder, not 'mnist'"),
        (["--data", "cifar10", "--data-path", "/nowhere"], "/nowhere doesn't exist as a source of cifar10"),
        (["--data", "folder"], "data 'folder' needs data_path"),
        (["--data", "folder", "--data-path", "/nowhere"], "/nowhere/train is missing"),
        (["--model", "vgg"], "model must be one of preresnet20, "),
        (["--method", "magic"], "method must be one of full, ste, pdqat-output, pdqat-layers, not 'magic'"),
        (["--preset", "mine"], "unknown preset 'mine'; choose one of quickstart, paper"),
        (["--config", "/nowhere.toml"], "can't read the configuration /nowhere.toml"),
        (["--init", "/nowhere.pt"], "there is no file /nowhere.pt with weights to start from"),
        (["--seed", "99999999999999999999"], "seed is too large"),
        (["--validation", "1"], "validation must be above 0 and below 1, not 1.0"),
        (["--level", "block", "--blocks", "head"], "block 'head' is not a submodule with layers in it"),
        (["--resume", "/nowhere", "--epochs", "3"], "--resume takes everything from the run folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_training_refuses_bad_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    folder = [] if "--resume" in arguments else ["--out", str(tmp_path / "run")]
    assert sentence in refusal(capsys, "train", *arguments, *folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["tarin"], "invalid choice: 'tarin'"),
        (["eval"], "the following arguments are required: RUN"),
        (["eval", "/nowhere"], "/nowhere is not a run folder: it has no config.toml"),
        (["eval", "/nowhere", "--part", "train"], "invalid choice: 'train'"),
        (["show", "/nowhere"], "/nowhere is not a run folder"),
        (["train", "--resume", "/nowhere"], "/nowhere is not a run folder"),
        (["data", "mnist"], "invalid choice: 'mnist'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_commands_refuse_bad_arguments(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert sentence in refusal(capsys, *arguments)


def test_an_unknown_key_in_the_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("learning_rate = 0.1\n")
    said = refusal(capsys, "train", "--config", file, "--out", tmp_path / "run")
    assert "unknown key 'learning_rate' in the configuration; the keys are preset, data, " in said
    assert not (tmp_path / "run").exists()


def test_an_existing_folder_is_left_as_it_is(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run.path)
    said = refusal(capsys, "train", "--epochs", "1", *TINY, "--out", run.path)
    assert f"{run.path} exists; give another --out, or continue that run with --resume {run.path}" in said
    assert contents(run.path) == before


def test_a_folder_name_that_is_too_long_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "File name too long" in refusal(capsys, "train", *TINY, "--out", tmp_path / ("a" * 300))


def test_a_finished_run_is_not_trained_further(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run.path)
    said = refusal(capsys, "train", "--resume", run.path)
    assert f"the run {run.path} is finished; see it with: pdqat show {run.path}" in said
    assert contents(run.path) == before


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"\xff\xd8")
    assert "is not a run folder: it has no config.toml" in refusal(capsys, "train", "--resume", tmp_path)
    assert contents(tmp_path) == {"holiday.jpg": b"\xff\xd8"}


@pytest.mark.parametrize("damage", ["truncated", "random", "overwritten", "missing"])
def test_a_corrupt_checkpoint_is_refused(unfinished: Run, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    whole = unfinished.last.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "truncated": whole[:middle],
        "random": bytes(range(256)) * 10,
        "overwritten": whole[:middle] + bytes(1000) + whole[middle + 1000 :],
    }
    for path in (unfinished.best, unfinished.last):
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(damaged[damage])
    before = contents(unfinished.path)
    assert "best.pt" in refusal(capsys, "eval", unfinished.path)
    assert "last.pt" in refusal(capsys, "eval", unfinished.path, "--checkpoint", "last")
    if damage != "missing":
        assert "the checkpoint" in refusal(capsys, "train", "--resume", unfinished.path)
    assert contents(unfinished.path) == before


def test_a_checkpoint_of_another_model_is_refused(unfinished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished.config_file.write_text(unfinished.config_file.read_text().replace("width = 1", "width = 2"))
    for command in (["eval"], ["train", "--resume"]):
        assert "does not fit the run's configuration" in refusal(capsys, *command, unfinished.path)


def test_a_run_without_summary_is_not_shown(unfinished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, "show", unfinished.path)
    assert f"is not finished; continue it with: pdqat train --resume {unfinished.path}" in said


@pytest.mark.parametrize("content", ["{", "{}", "3"])
def test_a_damaged_summary_is_not_shown(run: Run, capsys: pytest.CaptureFixture[str], content: str) -> None:
    run.summary_file.write_text(content)
    for form in ([], ["--json"]):
        assert "summary.json is damaged" in refusal(capsys, "show", run.path, *form)


def test_a_loss_that_becomes_nan_ends_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    schedule = ["--epochs", "2", "--milestones", "0.5", "--decay", "1e33"]
    assert main(["train", *TINY, *schedule, "--out", str(folder)]) == 2
    said = capsys.readouterr().err
    assert f"the loss is not a number at epoch 2, step 2; {folder / 'last.pt'} holds the state after epoch 1" in said
    assert said.count("\n") == 1
    assert main(["eval", str(folder), "--checkpoint", "last"]) == 0


def test_a_truncated_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / CIFAR10_BINARY.archive
    with tarfile.open(archive, "w:gz") as writing:
        for name in CIFAR10_BINARY.files:
            member = tarfile.TarInfo(f"{CIFAR10_BINARY.folder}/{name}")
            member.size = 20_000
            writing.addfile(member, io.BytesIO(os.urandom(member.size)))
    whole = archive.read_bytes()
    arguments = ["train", "--data", "cifar10", "--data-path", str(archive), "--out", str(tmp_path / "run")]
    assert "data_batch_1.bin" in refusal(capsys, *arguments), "whole, but not the official one"
    archive.write_bytes(whole[: len(whole) // 2])
    assert "is not a whole .tar.gz archive" in refusal(capsys, *arguments)
    assert contents(tmp_path) == {archive.name: archive.read_bytes()}


def image_folder(path: Path, classes: list[str], images: int = 4) -> Path:
    for part in ("train", "test"):
        for shade, name in enumerate(classes):
            (path / part / name).mkdir(parents=True)
            for number in range(images):
                Image.new("RGB", (9, 9), (40 * shade, 10 * number, 0)).save(path / part / name / f"{number}.png")
    return path


def test_a_folder_of_images_is_trained_on(tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", ["cat", "dog"], images=6)
    arguments = ["--data", "folder", "--data-path", str(images), "--image-size", "8", "--batch-size", "4"]
    assert main(["train", "--epochs", "1", *arguments, "--out", str(tmp_path / "run")]) == 0
    assert Run.open(tmp_path / "run").summary()["accuracy"].keys() == {"full", "2-bit"}


@pytest.mark.parametrize(
    ("classes", "images", "size", "sentence"),
    [
        (["cat", "dog"], 4, "2", "can't take images of shape (3, 2, 2)"),
        (["cat"], 4, "8", "one class only"),
        (["cat", "dog"], 0, "8", "has no images"),
        ([], 0, "8", "train is missing"),
        (["cat", "dog"], 1, "8", "leaves nothing to validate on"),
    ],
)
def test_folders_of_images_that_can_not_be_trained_on_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], classes: list[str], images: int, size: str, sentence: str
) -> None:
    folder = image_folder(tmp_path / "images", classes, images)
    arguments = ["--data", "folder", "--data-path", str(folder), "--image-size", size]
    assert sentence in refusal(capsys, "train", *arguments, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def entry(epoch: int, **changes: Any) -> dict[str, Any]:
    constraints = [{"slack": -0.25}, {"slack": [-0.5, 0.125]}]
    accuracy = {"full": 0.9, "2-bit": 0.5}
    return {"epoch": epoch, "objective": 2.5, "loss": 1.25, "accuracy": accuracy, "constraints": constraints} | changes


def test_a_terminal_shows_a_bar_with_epoch_loss_accuracies_and_worst_slack() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with TrainingProgress(console) as progress:
        progress.start(epochs=4, steps=10, done=1)
        progress.epoch(entry(1))
        progress.step(epoch=2, step=5, objective=2.75)
    assert isinstance(console.file, io.StringIO)
    shown = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    for part in ("epoch 2/4", "15/40", "objective 2.750", "loss 1.250", "full 90.00%", "2-bit 50.00%", "slack +0.125"):
        assert part in shown


def test_a_log_file_gets_a_line_an_epoch() -> None:
    console = Console(file=io.StringIO(), width=40)
    with TrainingProgress(console) as progress:
        progress.start(epochs=2, steps=10, done=0)
        for epoch in (1, 2):
            progress.step(epoch, 10, 2.5)
            progress.epoch(entry(epoch, constraints=[]))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        f"epoch {epoch}/2  objective 2.500  loss 1.250  full 90.00%  2-bit 50.00%" for epoch in (1, 2)
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--device", "cuda", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pdqat: device 'cuda' can't be used here (")
    assert said.endswith("); use another one, such as cpu\n")
    assert not (tmp_path / "run").exists()
