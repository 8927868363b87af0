"""What each command does and prints."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from command_line import TINY, Finished, contents
from pdqat import models
from pdqat.cli import main
from pdqat.config.presets import config_of
from pdqat.config.train_config import TrainConfig
from pdqat.runs.folder import Run
from pdqat.terminal import number, percent

OPTIONS = [f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(TrainConfig)]


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
    for bound in summary["constraints"]:
        _, _, table = output.partition(f"constraints of {bound['view']}: mean distance <= tolerance")
        row = next(line.split() for line in table.splitlines() if line.split()[:1] == [bound["where"] or "output"])
        numbers = [bound[key] for key in ("tolerance", "distance", "slack", "multiplier")]
        assert [float(cell) for cell in row[1:5]] == pytest.approx(numbers, abs=5e-5, rel=0.06)
        assert row[5:] == ["yes" if bound["satisfied"] else "no"]
    assert f"run folder: {finished.run.path}\n" in output
    assert "stem: first layer: full precision unless a rule names it" in output
    assert "epoch 1/2 " in output
    assert "epoch 2/2 " in output


def test_the_run_folder_has_the_documented_files(finished: Finished) -> None:
    names = {
        *("config.toml", "command.txt", "metrics.jsonl", "summary.json", "best.pt", "last.pt", "seal.json", ".lock"),
        "report.html",
    }
    assert contents(finished.run.path).keys() == names


def test_show_prints_the_final_tables_again(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(finished.run.path)]) == 0
    shown = capsys.readouterr().out
    assert finished.output.endswith(f"{shown}report: {finished.run.report_file}\n")
    assert shown.startswith("accuracy")


def test_show_json_prints_the_summary(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(finished.run.path), "--json"]) == 0
    assert capsys.readouterr().out == finished.run.summary_file.read_text()


def test_eval_measures_what_the_summary_says(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    summary = finished.run.summary()
    for part in ("test", "validation"):
        assert main(["eval", str(finished.run.path), "--part", part, "--json"]) == 0
        measured = json.loads(capsys.readouterr().out)
        assert (measured["part"], measured["metric"]) == (part, "accuracy")
        assert measured["accuracy"] == {view: parts[part] for view, parts in summary["accuracy"].items()}
    assert measured["constraints"] == summary["constraints"], "measured on validation images"


def test_eval_prints_tables(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(finished.run.path)]) == 0
    printed = capsys.readouterr().out
    assert "accuracy on test images" in printed
    assert all(percent(parts["test"]) in printed for parts in finished.run.summary()["accuracy"].values())
    assert all(bound["where"] in printed for bound in finished.run.summary()["constraints"])


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
    assert (
        main(
            [
                *arguments,
                "--no-augment",
                "--schedule",
                "steps",
                "--milestones",
                "0.2",
                "0.4",
                "--out",
                str(tmp_path / "run"),
            ]
        )
        == 0
    )
    config = config_of(Run.open(tmp_path / "run"))
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
    entry = next(it for it in Run.open(folder).summary()["constraints"] if it["where"] == "stages.2.0.conv1")
    row = next(line for line in printed.splitlines() if line.split()[:1] == ["stages.2.0.conv1"])
    assert "worst channel of each layer" in printed
    assert number(max(entry["slack"]), "+") in row.split()


def test_resume_continues_an_unfinished_run(unfinished: Run, finished: Finished) -> None:
    assert main(["train", "--resume", str(unfinished.path)]) == 0
    assert {**unfinished.summary(), "seconds": 0} == {**finished.run.summary(), "seconds": 0}


@pytest.mark.parametrize(
    ("command", "mentions"),
    [
        (
            [],
            ["train", "eval", "show", "data", "sensitivity", "plan", "export", "verify", "bench", "paper", "--version"],
        ),
        (["train"], ["--config", "--preset", "--out", "--resume", "quickstart", "paper", "--no-augment", *OPTIONS]),
        (["eval"], ["RUN", "--part", "--checkpoint", "--json", "test", "validation", "best", "last"]),
        (["show"], ["RUN", "--json"]),
        (["data"], ["NAME", "--folder", "cifar10", "cifar100", "PDQAT_DATA"]),
        (["sensitivity"], ["RUN", "--rank", "dual", "hessian", "--images", "--json", "--csv"]),
        (["plan"], ["RUN", "--budget", "--frontier", "--bits", "--rank", "--images", "--pin", "--exclude", "--out"]),
        (["export"], ["RUN", "--format", "onnx", "openvino", "qonnx", "torch", "--pack", "--plan", "--out"]),
        (["verify"], ["FILE", "RUN", "--plan", "--json"]),
        (["bench"], ["FILE", "--run", "--plan", "--json"]),
        (
            ["paper", "run"],
            [
                "SUITE",
                "table1",
                "--protocol",
                "--folder",
                "--seeds",
                "--only",
                "--jobs",
                "--executor",
                "--device",
                "--list",
            ],
        ),
        (["paper", "show"], ["SUITE", "table1", "--protocol", "--folder"]),
    ],
)
def test_help_mentions_every_option(
    capsys: pytest.CaptureFixture[str], command: list[str], mentions: list[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([*command, "--help"])
    assert leaving.value.code == 0
    text = capsys.readouterr().out
    assert [option for option in mentions if option not in text] == []


def test_help_of_train_explains_every_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for field in dataclasses.fields(TrainConfig):
        assert field.metadata["help"] in text
    for shown in ("(default: digits)", "(default: 0.01)", "(default: 0.5 0.75 0.9)", "one of layer, channel, block"):
        assert shown in text


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out.startswith("pdqat 0.")
