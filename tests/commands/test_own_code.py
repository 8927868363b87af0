"""Own models and data from the command line: `--model mynets:build --data mydata:load`."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import pdqat
from command_line import contents, refusal
from command_line import pdqat as command
from pdqat.cli import main
from pdqat.config.presets import config_of
from pdqat.config.trained import Trained
from pdqat.errors import InputError
from pdqat.runs.folder import Run
from same_run import assert_same_run

NETS = """
from pathlib import Path
from torch import nn

Path("imported").touch()

def build(width=2):
    return nn.Sequential(
        nn.Linear(4, 4 * width), nn.BatchNorm1d(4 * width), nn.ReLU(),
        nn.Linear(4 * width, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3),
    )

def of_images(classes, image_shape, width):
    channels, height, _ = image_shape
    return nn.Sequential(
        nn.Conv2d(channels, 4 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(4 * width, 4, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(4 * (height - 2) ** 2, classes),
    )

class Nets:
    @staticmethod
    def build(seed):
        return build()

def without_layers():
    return nn.ReLU()

def number():
    return 3

def fails(width):
    raise RuntimeError(f"no network of width {width}")

def complicated(width, depth):
    return build(width)

constant = 3
"""

DATA = """
import dataclasses
from pathlib import Path
import torch
from torch.utils.data import DataLoader, TensorDataset
from pdqat import data

Path("imported").touch()

def samples(count, seed):
    inputs = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(inputs, (3 * inputs.mean(1)).long().clamp(max=2))

def load(batch_size, seed):
    training = DataLoader(samples(48, seed), batch_size=min(batch_size, 16), shuffle=True)
    return training, DataLoader(samples(32, 100), batch_size=16)

def with_test(**options):
    assert {"data_path", "batch_size", "seed"} <= set(options)
    training, validation = load(16, options["seed"])
    return {"train": training, "validation": validation, "test": list(validation)}

def three():
    return [*load(16, 0), DataLoader(samples(10, 7), batch_size=5)]

def images(data_path=None):
    digits = data.digits()
    parts = {name: getattr(digits, name)[:200] for name in ("images", "labels", "test_images", "test_labels")}
    return dataclasses.replace(digits, name="mine", **parts)

def once():
    return iter(load(16, 0)[0]), load(16, 0)[1]

def numbers():
    batches = [(x, x.sum(1, keepdim=True)) for x, _ in load(8, 0)[0]]
    return batches, batches


def empty():
    return [], load(16, 0)[1]

def triples():
    return [(torch.rand(4, 4), torch.arange(4), 3)], load(16, 0)[1]

def nothing():
    return None

def one():
    return (load(16, 0)[0],)

def wrong_keys():
    return {"train": load(16, 0)[0], "valid": load(16, 0)[1]}

def fails(seed):
    raise FileNotFoundError("no samples.csv")

def complicated(batch_size, shards):
    return load(batch_size, 0)
"""

TRAIN = ["train", "--epochs", "2", "--bits", "2", "--schedule", "steps"]
MODEL, LOADERS = ["--model", "mynets:build"], ["--data", "mydata:load"]
MINE = [*MODEL, *LOADERS]


def write_modules(folder: Path) -> None:
    (folder / "mynets.py").write_text(NETS)
    (folder / "mydata.py").write_text(DATA)
    (folder / "broken.py").write_text("import nonexistent_package\n")
    (folder / "unfinished.py").write_text("def build(:\n")
    (folder / "leaving.py").write_text("raise ValueError('not today')\n")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with own code and a run of it, made as a person does."""
    folder = tmp_path_factory.mktemp("own-code")
    write_modules(folder)
    done = command(*TRAIN, *MINE, "--out", "run", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "run folder: run\n" in done.stdout
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with own code that was not imported yet."""
    write_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("mynets", "mydata", "broken", "unfinished", "leaving"):
            del sys.modules[name]


@pytest.fixture
def run(here: Path, trained: Path) -> Run:
    return Run.open(shutil.copytree(trained / "run", here / "run"))


def imported(here: Path) -> bool:
    return (here / "imported").exists()


def test_a_run_remembers_its_code_by_name(run: Run) -> None:
    config = config_of(run)
    assert (config.model, config.data) == ("mynets:build", "mydata:load")
    assert run.summary()["accuracy"].keys() == {"full", "2-bit"}
    assert set(run.summary()["accuracy"]["full"]) == {"validation"}, "there are no test samples"
    assert contents(run.path).keys() == {
        *("config.toml", "command.txt", "metrics.jsonl", "summary.json", "best.pt", "last.pt", "seal.json", ".lock"),
        "report.html",
    }


COMMANDS = {
    "eval": ["eval", "run", "--part", "validation"],
    "sensitivity": ["sensitivity", "run"],
    "plan": ["plan", "run", "--budget", "3 bits"],
    "export": ["export", "run", "--format", "torch"],
    "resume": ["train", "--resume", "run"],
    "from": ["train", "--from", "run", "--epochs", "1", "--out", "next"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_alone_runs_no_code_until_it_is_named_again(
    run: Run, here: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "resume":
        run.summary_file.unlink()
    before, arguments = contents(run.path), COMMANDS[name]
    alone = "the run run was trained with own code, and a run folder alone may not run code: name it again with"
    assert f"{alone} --model mynets:build\n" in refusal(capsys, *arguments)
    assert f"{alone} --data mydata:load\n" in refusal(capsys, *arguments, *MODEL)
    assert f"{alone} --model mynets:build\n" in refusal(capsys, *arguments, *LOADERS)
    assert contents(run.path) == before
    assert not imported(here)
    assert main([*arguments, *MINE]) == 0
    assert imported(here)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["eval", "sensitivity", "plan", "resume"])
def test_other_code_than_the_runs_is_refused(
    run: Run, here: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "resume":
        run.summary_file.unlink()
    said = refusal(capsys, *COMMANDS[name], "--model", "other:build", *LOADERS)
    assert "the run run was trained with model mynets:build, not other:build\n" in said
    said = refusal(capsys, *COMMANDS[name], *MODEL, "--data", "digits")
    assert "the run run was trained with data mydata:load, not digits\n" in said
    assert not imported(here)


def test_eval_measures_what_the_summary_says(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "run", "--part", "validation", "--json", *MINE]) == 0
    measured = json.loads(capsys.readouterr().out)
    summary = run.summary()
    assert measured["accuracy"] == {view: parts["validation"] for view, parts in summary["accuracy"].items()}
    said = refusal(capsys, "eval", "run", *MINE)
    assert "the run run has no test samples; measure it with --part validation" in said


def test_a_resumed_run_equals_an_undisturbed_one(run: Run, trained: Path, here: Path) -> None:
    """From its first epoch on, in another process than the one that was stopped."""
    stopped = here / "stopped"
    assert main([*TRAIN, *MINE, "--epochs", "1", "--out", str(stopped)]) == 0
    (stopped / "config.toml").write_text(run.config_file.read_text())
    assert main(["seal", str(stopped)]) == 0
    (stopped / "summary.json").unlink()
    assert main(["train", "--resume", str(stopped), *MINE]) == 0
    assert_same_run(Run.open(trained / "run"), Run.open(stopped))


@pytest.mark.usefixtures("run")
def test_from_takes_weights_and_multipliers(here: Path) -> None:
    assert main(["train", "--from", "run", "--epochs", "1", "--out", "next", *MINE]) == 0
    config = config_of(Run.open(here / "next"))
    assert (config.model, config.data, config.take_over) == ("mynets:build", "mydata:load", True)
    assert main(["plan", "run", "--budget", "3 bits", *MINE]) == 0
    assert main(["train", "--from", "run", "--plan", "run/plan.toml", "--epochs", "1", "--out", "mixed", *MINE]) == 0
    assert Run.open(here / "mixed").summary()["plans"].keys() == {"mixed"}


def test_it_is_opened_in_python_by_naming_its_code(run: Run) -> None:
    with pytest.raises(InputError, match="by the command line with mynets:build and mydata:load, and a folder alone"):
        pdqat.load(run.path)
    with pytest.raises(InputError, match="name it again with --model mynets:build"):
        Trained.open(run.path)
    trained = Trained.open(run.path, "mynets:build", "mydata:load")
    inputs = torch.rand(2, 4)
    assert trained.problem.net(inputs).shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--model", "mynets:build", "--data", "mydata:with_test", "--batch-size", "8"], {"validation", "test"}),
        (["--model", "mynets:build", "--data", "mydata:three"], {"validation", "test"}),
        (["--model", "mynets:Nets.build", "--data", "mydata:load"], {"validation"}),
        (["--model", "mynets:of_images", "--data", "mydata:images"], {"validation", "test"}),
        (["--model", "mynets:of_images", "--data", "digits", "--train-images", "32"], {"validation", "test"}),
        (["--data", "mydata:images", "--batch-size", "64"], {"validation", "test"}),
    ],
    ids=["dictionary", "list of three", "method of a class", "data set", "own model", "own data"],
)
def test_functions_may_return_loaders_or_a_data_set(here: Path, arguments: list[str], parts: set[str]) -> None:
    assert main(["train", "--epochs", "1", *arguments, "--out", "run"]) == 0
    assert set(Run.open(here / "run").summary()["accuracy"]["full"]) == parts


def test_options_reach_the_functions_that_take_them(here: Path) -> None:
    arguments = ["--epochs", "1", *MINE, "--width", "3", "--seed", "4", "--batch-size", "12", "--out", "run"]
    assert main(["train", *arguments]) == 0
    trained = Trained.open(here / "run", "mynets:build", "mydata:load")
    assert trained.problem.net.layers["3"].weight.shape == (8, 12)
    assert [len(target) for _, target in trained.loaders.training] == [12, 12, 12, 12]


def test_fresh_slacks_are_measured_on_own_loaders(here: Path) -> None:
    assert main([*TRAIN, *MINE, "--dual-slack", "fresh", "--out", "run"]) == 0
    assert len(Run.open(here / "run").metrics()) == 2


def test_without_out_the_folder_is_named_after_the_code(here: Path) -> None:
    assert main([*TRAIN, *MINE, "--epochs", "1"]) == 0
    (folder,) = (here / "runs").iterdir()
    assert folder.name.startswith("mydata-load-pdqat-layers-")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "nowhere:build"], "the module nowhere can't be imported from {here}: No module named 'nowhere'"),
        (["--model", "broken:build"], "the module broken can't be imported from {here}: No module named 'nonexist"),
        (["--model", "unfinished:build"], "unfinished:build: the module unfinished can't be imported from {here}: "),
        (["--model", "leaving:build"], "leaving:build: the module leaving can't be imported from {here}: not today"),
        (["--model", "mynets:bulid"], "mynets:bulid: the module mynets has no bulid"),
        (["--model", "mynets:Nets.bulid"], "mynets:Nets.bulid: the module mynets has no Nets.bulid"),
        (["--model", "mynets:constant"], "mynets:constant is a int; it must be a function or a class"),
        (["--model", "mynets:number"], "mynets:number returned a int; it must return a torch.nn.Module"),
        (["--model", "mynets:without_layers"], "the model has nothing to quantise"),
        (["--model", "mynets:fails"], "mynets:fails failed with RuntimeError: no network of width 1"),
        (
            ["--model", "mynets:complicated"],
            "mynets:complicated needs 'depth', which is no option that it can be given; it may take width, seed",
        ),
        (
            ["--model", "mynets:of_images"],
            "mynets:of_images needs 'classes', which is no option that it can be given; it may take width, seed",
        ),
        (["--model", "mynets.build"], "model must be one of preresnet8, "),
        (["--model", "my nets:build"], "model must be one of preresnet8, "),
        (["--model", "mynets:build()"], "or an import path such as mypackage.module:function, not 'mynets:build()'"),
        (["--data", "nowhere:load"], "nowhere:load: the module nowhere can't be imported from {here}: "),
        (["--data", "mydata:laod"], "mydata:laod: the module mydata has no laod"),
        (["--data", "mydata:fails"], "mydata:fails failed with FileNotFoundError: no samples.csv"),
        (["--data", "mydata:complicated"], "mydata:complicated needs 'shards', which is no option"),
        (["--data", "mydata:nothing"], "mydata:nothing returned a NoneType; it must return a pdqat.data.Dataset, or"),
        (["--data", "mydata:one"], "mydata:one returned a tuple; it must return a pdqat.data.Dataset, or the loaders"),
        (["--data", "mydata:wrong_keys"], "mydata:wrong_keys returned a dict with the keys train, valid; it must"),
        (
            ["--data", "mydata:once"],
            "train of mydata:once is a _SingleProcessDataLoaderIter, which ends after one pass",
        ),
        (["--data", "mydata:empty"], "train of mydata:empty is empty: it has no batch"),
        (["--data", "mydata:triples"], "a batch must be a pair of inputs and target, not a tuple of 3"),
        (["--dual-samples", "10"], "dual_samples draws from a data set of images, and --data names loaders of own"),
        (["--image-size", "16"], "--image-size would change nothing: mydata:load takes no argument 'image_size'"),
        (["--validation", "0.3"], "--validation would change nothing: mydata:load takes no argument 'validation'"),
        (["--model", "mynets:number", "--width", "2"], "--width would change nothing: mynets:number takes no argument"),
        (
            ["--data", "mydata:images", "--image-size", "16"],
            "--image-size would change nothing: mydata:images takes no",
        ),
        (
            ["--model", "preresnet-small"],
            "the model 'preresnet-small' is made for images, and mydata:load gives loaders",
        ),
        (["--model", "mynets:of_images", "--data", "mydata:nothing"], "mydata:nothing returned a NoneType"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_code_that_can_not_be_used_is_refused_in_one_sentence(
    here: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = [*([] if "--model" in arguments else MODEL), *([] if "--data" in arguments else LOADERS)]
    said = refusal(capsys, "train", *mine, *arguments, "--out", "run")
    assert sentence.format(here=here) in said
    assert not (here / "run").exists()


def test_a_failure_is_one_line_without_a_traceback(trained: Path) -> None:
    done = command(*TRAIN, "--model", "mynets:fails", *LOADERS, "--out", "failed", cwd=trained)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pdqat: mynets:fails failed with RuntimeError: no network of width 1\n"


def test_a_configuration_file_alone_runs_no_code(run: Run, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "config.toml names own code, and a file alone may not run code: name it again with --model mynets:build"
    assert said in refusal(capsys, "train", "--config", run.config_file, "--out", here / "next")
    assert not imported(here)
    assert not (here / "next").exists()


def test_targets_that_are_no_labels_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "mydata:numbers gives targets of type torch.float32; the command line trains classifiers"
    assert said in refusal(capsys, "train", *MODEL, "--data", "mydata:numbers", "--out", here / "next")
    assert not (here / "next").exists()
