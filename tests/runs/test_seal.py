"""The seal: no file of a run that was damaged or edited is read as if pdqat had written it so."""

import random
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from configured import create
from entries_of_runs import SUMMARY, epoch_entry
from pdqat.cli import main
from pdqat.config.presets import config_of
from pdqat.config.train_config import TrainConfig
from pdqat.errors import InputError
from pdqat.precision import Precision
from pdqat.runs import seal
from pdqat.runs.folder import Run
from pdqat.runs.plan_file import read_plan, write_plan

REPOSITORY = Path(__file__).parents[2]
CONFIG = TrainConfig(
    epochs=2, train_images=64, tolerances={"stages.0.0.conv0": 0.2, "stages.*": 0.1}, layers={"head": "8"}
)
PLAN = {"conv": Precision(2, 2), "head": Precision(4, 8)}
MEASURED = {"train_accuracy": {"2-bit": 0.5}, "layer_distances": {"squared": {"conv": 0.1}}, "processor": "by hand"}

READERS: dict[str, Callable[[Run], Any]] = {
    "config.toml": config_of,
    "metrics.jsonl": Run.metrics,
    "summary.json": Run.summary,
    "measured.json": Run.measured,
    "plan.toml": lambda run: read_plan(run.path / "plan.toml"),
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """With one of each file."""
    run = create(tmp_path / "run", CONFIG)
    run.write_metrics([epoch_entry(1), epoch_entry(2)])
    run.write_summary(SUMMARY)
    run.write_measured(MEASURED)
    write_plan(run.path / "plan.toml", PLAN, "by hand")
    return run


def meaning(run: Run, names: Iterable[str] = READERS) -> dict[str, Any]:
    """What is read of files; an InputError where one is refused."""

    def read(reader: Callable[[Run], Any]) -> Any:
        try:
            return reader(run)
        except InputError as error:
            return error

    return {name: read(READERS[name]) for name in names}


def accepted(run: Run, name: str, contents: list[bytes]) -> list[bytes]:
    """Of damaged contents of a file those that are read with another meaning than the whole one."""
    whole, path = meaning(run), run.path / name
    assert not any(isinstance(read, InputError) for read in whole.values())
    wrong = []
    for content in contents:
        path.write_bytes(content)
        read = meaning(run, [name] if name in READERS else READERS)
        if any(not isinstance(part, InputError) and part != whole[file] for file, part in read.items()):
            wrong.append(content)
    return wrong


@pytest.mark.parametrize("name", [*READERS, "seal.json"])
def test_no_truncated_file_is_read_with_another_meaning(run: Run, name: str) -> None:
    content = (run.path / name).read_bytes()
    step = max(1, len(content) // 200)
    assert accepted(run, name, [content[:length] for length in range(0, len(content), step)]) == []


@pytest.mark.parametrize("name", [*READERS, "seal.json"])
def test_no_file_with_a_flipped_bit_is_read_with_another_meaning(run: Run, name: str) -> None:
    content, chance = (run.path / name).read_bytes(), random.Random(name)

    def flipped() -> bytes:
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        return bytes(damaged)

    assert accepted(run, name, [flipped() for _ in range(200)]) == []


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "without a seal"])
def test_no_truncation_of_a_configuration_is_completed_by_defaults(tmp_path: Path, sealed: bool) -> None:
    """All of them; without a seal those that end in the last table leave no key out, and can't be told."""
    run = create(tmp_path / "run", TrainConfig(epochs=2, train_images=64))
    if not sealed:
        run.seal.file.unlink()
    content = run.config_file.read_bytes()
    for length in range(len(content) - 1):  # the last line break means nothing
        run.config_file.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"config.toml is damaged|can't read the configuration|lacks|must"):
            config_of(run)


def test_an_empty_configuration_is_not_trained(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.summary_file.unlink()
    for remove_seal in (False, True):
        run.config_file.write_text("")
        if remove_seal:
            run.seal.file.unlink()
        assert main(["train", "--resume", str(run.path)]) == 2
        assert "config.toml is damaged" in capsys.readouterr().err


def test_an_edited_file_is_accepted_by_the_command_that_the_refusal_names(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.config_file.write_text(run.config_file.read_text().replace("epochs = 2", "epochs = 3"))
    with pytest.raises(InputError, match=r"config.toml is damaged, or was edited") as refusal:
        config_of(run)
    command = re.search(r"accept it with: pdqat (seal .*)", str(refusal.value))
    assert command is not None
    assert main(command[1].split()) == 0
    assert "config.toml" in capsys.readouterr().out
    assert config_of(run).epochs == 3
    assert not any(isinstance(read, InputError) for read in meaning(run).values()), "the other files are sealed too"


@pytest.mark.parametrize("name", ["config.toml", "metrics.jsonl", "summary.json"])
def test_what_no_run_can_be_is_not_accepted(run: Run, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = run.path / name
    path.write_bytes(path.read_bytes()[:-60])
    assert main(["seal", str(run.path)]) == 2
    assert name in capsys.readouterr().err
    assert isinstance(meaning(run)[name], InputError)


def test_a_refused_seal_leaves_the_one_that_was_there(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    good = run.config_file.read_bytes()
    run.config_file.write_bytes(re.sub(rb"(?m)^epochs = .*$", b'epochs = "many"', good))
    assert main(["seal", str(run.path)]) == 2
    assert "epochs" in capsys.readouterr().err
    run.config_file.write_bytes(good)
    config_of(run)


def test_a_lost_seal_is_no_loss_of_the_run_and_a_damaged_one_is_said(run: Run) -> None:
    whole = meaning(run)
    run.seal.file.write_text("{")
    with pytest.raises(InputError, match=r"seal.json is damaged: .*; if the other files are good, seal them with:"):
        run.metrics()
    run.seal.accept()
    assert meaning(run) == whole
    run.seal.file.unlink()
    assert meaning(run) == whole


def test_a_folder_of_an_earlier_version_is_sealed_whole_by_the_next_write(run: Run) -> None:
    run.seal.file.unlink()
    run.write_metrics([epoch_entry(1)])
    run.config_file.write_text(run.config_file.read_text().replace("epochs = 2", "epochs = 3"))
    with pytest.raises(InputError, match="was edited"):
        config_of(run)


@pytest.mark.parametrize("killed_at", [0, 1])
def test_a_kill_between_two_writes_leaves_a_folder_that_is_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """First the seal is written, then the file: the kill comes before the one or the other."""

    class Killed(BaseException):
        pass

    writes: list[Path] = []

    def write(path: Path, content: bytes) -> None:
        if len(writes) == killed_at:
            raise Killed
        writes.append(path)
        path.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr(seal, "write_atomically", write)
        with pytest.raises(Killed):
            run.write_metrics([epoch_entry(1)])
    assert len(run.metrics()) == 2
    run.write_metrics([epoch_entry(1)])
    assert len(run.metrics()) == 1


def test_what_is_overwritten_is_no_longer_accepted(run: Run) -> None:
    """But for the last content before, to which a kill may lead back."""
    first = run.metrics_file.read_bytes()
    for count in (1, 3):
        run.write_metrics([epoch_entry(epoch) for epoch in range(1, count + 1)])
    run.metrics_file.write_bytes(first)
    with pytest.raises(InputError, match="was edited"):
        run.metrics()


def test_a_plan_that_a_person_wrote_into_the_folder_is_read(run: Run) -> None:
    (run.path / "mine.toml").write_text("[layers]\nconv = 2\n")
    assert read_plan(run.path / "mine.toml") == {"conv": Precision(2, 2)}


@pytest.mark.parametrize(
    "config", sorted((REPOSITORY / "results").rglob("config.toml")), ids=lambda path: path.parent.name
)
def test_every_run_that_is_kept_is_still_read(config: Path) -> None:
    run = Run.open(config.parent)
    trained, epochs = config_of(run), len(run.metrics())
    if run.path.name.endswith("-stopped"):
        assert 0 < epochs < trained.epochs
        return
    summary = run.summary()
    assert trained.method == summary["method"]
    assert epochs in (0, summary["epochs"]), "of the quick start no metrics are kept"
    if run.measured_file.exists():
        assert run.measured()["train_accuracy"]


def test_a_kept_run_that_loses_a_line_is_refused(tmp_path: Path) -> None:
    """Of each line but for entries of lists and keys that not every run has."""
    run = Run(tmp_path / "run")
    shutil.copytree(REPOSITORY / "tests" / "old_run", run.path)
    lines = run.config_file.read_text().splitlines(keepends=True)
    optional = ("train_images", "output_tolerance", "layer_tolerance", "dual_rate", "threads")
    for number, line in enumerate(lines):
        if line.partition(" = ")[0] in optional or line.startswith((" ", "\n")):
            continue
        run.config_file.write_text("".join(lines[:number] + lines[number + 1 :]))
        with pytest.raises(InputError):
            config_of(run)
