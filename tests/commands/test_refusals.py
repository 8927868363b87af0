"""Bad input gets one sentence, and nothing that was there is touched."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
import torch

from command_line import TINY, contents, pdqat, refusal
from pdqat.cli import main
from pdqat.data.cifar_files import CIFAR10_BINARY
from pdqat.runs.folder import Run


def test_bad_input_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    done = pdqat("train", "--bitz", "9", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("pdqat: unknown option --bitz; did you mean --bits?")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--bitz", "2"], "unknown option --bitz; did you mean --bits? (see pdqat train --help)"),
        (["now"], "unrecognized arguments: now"),
        (["--epochs"], "--epochs: expected one argument"),
        (["--epochs", "few"], "--epochs: a whole number is needed, not 'few'"),
        (["--lr", "fast"], "--lr: a number is needed, not 'fast'"),
        (["--bits", "0"], "bits must hold precisions: a number of bits from 1 to 8"),
        (["--bits", "2", "9"], "not ['2', '9']"),
        (["--bits", "2", "2"], "each plan needs a name of its own"),
        (
            ["--method", "ste", "--objective", "full"],
            "objective is of constrained training, which method 'ste' is not",
        ),
        (
            ["--method", "full", "--dual-restart"],
            "dual_restart is of constrained training, which method 'full' is not",
        ),
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
        (["--data", "mnist"], "data must be one of digits, cifar10, cifar100, folder, or an import path such as"),
        (["--data", "cifar10", "--data-path", "/nowhere"], "/nowhere doesn't exist as a source of cifar10"),
        (["--data", "folder"], "data 'folder' needs data_path"),
        (["--data", "folder", "--data-path", "/nowhere"], "/nowhere/train is missing"),
        (["--model", "vgg"], "model must be one of preresnet8, "),
        (["-epochs", "3"], "unknown option -epochs; did you mean --epochs?"),
        (["--data", "cifar"], "(did you mean cifar10?), not 'cifar'"),
        (["--method", "pdqat-layer"], "(did you mean pdqat-layers?), not 'pdqat-layer'"),
        (["--quantizer", "unifrom"], "lsq (did you mean uniform?), not 'unifrom'"),
        (["--preset", "quikstart"], "unknown preset 'quikstart' (did you mean quickstart?); choose one of"),
        (["--method", "magic"], "method must be one of full, ste, pdqat-output, pdqat-layers, not 'magic'"),
        (["--image-size", "64"], "--image-size is for images of CIFAR or a folder"),
        (["--decay", "0.5"], "--decay is for the schedule 'steps', and this one is 'one-cycle'"),
        (["--preset", "mine"], "unknown preset 'mine'; choose one of best, quickstart, paper"),
        (["--config", "/nowhere.toml"], "can't read the configuration /nowhere.toml"),
        (["--init", "/nowhere.pt"], "there is no file /nowhere.pt with weights to start from"),
        (["--seed", "99999999999999999999"], "seed is too large"),
        (["--validation", "1"], "validation must be above 0 and below 1, not 1.0"),
        (["--level", "block", "--blocks", "head"], "block 'head' is not a submodule with layers in it"),
        (["--replan", "0.5"], "--replan is for a budget, and no --budget is given"),
        (["--budget-bits", "2", "4"], "--budget-bits is for a budget, and no --budget is given"),
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
        (["tarin"], "unknown word 'tarin' (did you mean train?); choose one of train, eval, "),
        (["eval"], "the following arguments are required: RUN"),
        (["eval", "/nowhere"], "/nowhere is not a run folder: it has no config.toml"),
        (["eval", "/nowhere", "--part", "train"], "unknown word 'train'; choose one of test, validation"),
        (["--verion"], "unknown option --verion; did you mean --version? (see pdqat --help)"),
        (["show", "--jsn"], "unknown option --jsn; did you mean --json? (see pdqat show --help)"),
        (["plan", "/nowhere", "--buget=3 bits"], "unknown option --buget; did you mean --budget?"),
        (["plan", "/nowhere", "--rank", "hesian"], "unknown word 'hesian' (did you mean hessian?); choose one of dual"),
        (["paper", "rnu"], "unknown word 'rnu' (did you mean run?); choose one of run, show (see pdqat paper --help)"),
        (["show", "/nowhere", "--nonsense"], "unknown option --nonsense (see pdqat show --help)"),
        (["show", "/nowhere"], "/nowhere is not a run folder"),
        (["train", "--resume", "/nowhere"], "/nowhere is not a run folder"),
        (["data", "mnist"], "unknown word 'mnist'; choose one of cifar10, cifar100"),
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
    unfinished.seal.accept()
    for command in (["eval"], ["train", "--resume"]):
        assert "does not fit the problem: " in refusal(capsys, *command, unfinished.path)


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
    schedule = ["--schedule", "steps", "--epochs", "2", "--milestones", "0.5", "--decay", "1e33"]
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--device", "cuda", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pdqat: device 'cuda' can't be used here (")
    assert said.endswith("); use another one, such as cpu\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["method", "seconds", "parameters", "chosen_epoch", "plans", "accuracy"])
def test_a_summary_that_lacks_a_part_is_damaged(run: Run, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    run.summary_file.write_text(json.dumps({name: part for name, part in run.summary().items() if name != key}))
    run.seal.accept()
    assert "summary.json is damaged" in refusal(capsys, "show", run.path)
