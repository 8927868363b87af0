"""The edge of the program: whatever happens inside, one sentence and a code come out."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import TINY, refusal
from configured import create, small
from entries_of_runs import SUMMARY
from pdqat.cli import main
from pdqat.errors import InputError
from pdqat.failures import explain
from pdqat.runs.folder import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Finished, as far as its summary goes."""
    run = create(tmp_path / "run", small())
    run.write_summary(SUMMARY)
    return run


def raising(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let `pdqat show` meet an exception."""

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("pdqat.commands.show.run", fail)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "there is not enough memory for this"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            "not enough memory",
        ),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
        (OverflowError(34, "Numerical result out of range"), "too large to compute with"),
        (RuntimeError("value cannot be converted to type float without overflow"), "too large to compute with"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_was_given_is_too_much(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, sentence: str
) -> None:
    raising(monkeypatch, error)
    assert sentence in refusal(capsys, "show", "anything")


def test_a_mistake_of_ours_is_one_sentence_with_the_details_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    raising(monkeypatch, KeyError("missing"))
    assert main(["show", "anything"]) == 70
    said = capsys.readouterr().err
    (details,) = tmp_path.iterdir()
    assert said.startswith("pdqat: this is a mistake in pdqat (KeyError: 'missing'); please report it")
    assert said.endswith(f"{details}\n")
    assert said.count("\n") == 1
    assert "Traceback" in details.read_text()


def test_details_that_can_not_be_saved_change_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    sentence, code = explain(KeyError("missing"))
    assert "could not be saved" in sentence
    assert code == 70


@pytest.mark.parametrize("kind", [ImportError, InputError, OSError])
def test_an_interrupt_that_something_turned_into_another_error_is_still_one(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = kind("half of a module")
    error.__cause__ = KeyboardInterrupt()
    raising(monkeypatch, error)
    assert main(["show", "anything"]) == 130
    assert capsys.readouterr().err.startswith("pdqat: interrupted")


INTERRUPTED_IMPORT = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from pdqat.cli import main
raise SystemExit(main(["show", "/nowhere"]))
"""


@pytest.mark.parametrize("module", ["pdqat.flags.parser", "pdqat.config.train_config", "pdqat.commands.show", "torch"])
def test_an_interrupt_during_imports_is_one_sentence(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert ended.returncode == 128 + signal.SIGINT
    assert ended.stderr == "pdqat: interrupted; what was finished is kept\n"


@pytest.mark.parametrize("text", ["", "a\0b", "\udcff"], ids=["empty", "NUL", "bytes that are no text"])
def test_names_that_no_file_can_have_are_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert "the name of a file or folder is needed" in refusal(capsys, "show", text)
    for option in ("--out", "--config", "--resume", "--from", "--plan"):
        assert f"argument {option}: the name of a file or folder is needed" in refusal(capsys, "train", option, text)
    for key in ("init", "data_path", "teacher"):
        flag = f"--{key.replace('_', '-')}"
        assert f"{key} must name a file or folder" in refusal(capsys, "train", flag, text)


@pytest.mark.parametrize("text", ["", "a\\u0000b"], ids=["empty", "NUL"])
def test_a_configuration_can_not_give_such_names_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    for key in ("init", "data_path", "teacher"):
        (tmp_path / "mine.toml").write_text(f'{key} = "{text}"\n')
        assert f"{key} must name a file or folder" in refusal(capsys, "train", "--config", tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--lr", "1e38"], "a number that was given is too large to compute with"),
        (["--width", "3000"], "to train model preresnet-small of width 3000 takes"),
        (["--width", "9" * 15], "is larger than any machine's memory"),
    ],
    ids=["lr", "width", "largest width"],
)
def test_numbers_that_are_too_large_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], sentence: str
) -> None:
    assert main(["train", *TINY, "--epochs", "1", *flags, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_images_for_which_there_is_no_memory_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    for part in ("train", "test"):
        for name in ("a", "b"):
            (tmp_path / part / name).mkdir(parents=True)
            Image.new("RGB", (4, 4)).save(tmp_path / part / name / "one.png")
    given = ["train", "--data", "folder", "--data-path", str(tmp_path), "--image-size", "100000000"]
    assert "there is no memory for 2 images of 100000000 x 100000000 pixels" in refusal(capsys, *given)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("bits = " + "[" * 100_000, "can't read the configuration"),
        ("layers" + ".a" * 5000 + " = 1", "nested too deeply"),
        ("method = 0x" + "f" * 9000, "method is too large"),
        ("model = 1979-05-27", "model must be text"),
        (f'bits = ["{"9" * 5000}"]', "bits must hold precisions"),
    ],
    ids=["nested lists", "nested tables", "a long number", "a date", "many bits"],
)
def test_odd_configurations_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    (tmp_path / "mine.toml").write_text(content)
    assert said in refusal(capsys, "train", "--config", tmp_path / "mine.toml")


@pytest.mark.parametrize("name", ["config.toml", "summary.json", "seal.json", "metrics.jsonl", "last.pt"])
@pytest.mark.parametrize("command", [["plan", "--budget", "2 bits"], ["export"]], ids=["plan", "export"])
def test_nothing_is_written_over_a_file_of_a_run(
    run: Run, capsys: pytest.CaptureFixture[str], command: list[str], name: str
) -> None:
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    link = run.path.parent / "link"
    link.symlink_to(run.path)
    for out in (run.path / name, run.path / "." / name, link / name):
        said = refusal(capsys, command[0], run.path, *command[1:], "--out", out)
        assert f"{name} is a file of a run, which needs it as it is; give another --out" in said
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


@pytest.mark.parametrize("command", [["plan", "--budget", "2 bits"], ["report"]], ids=["plan", "report"])
def test_links_in_a_circle_are_no_place_to_write_to(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    said = refusal(capsys, command[0], run.path, *command[1:], "--out", tmp_path / "one")
    assert "one: Too many levels of symbolic links" in said


def test_a_folder_that_appears_has_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted while it is written, there is none, and the same command works again."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    given = ["train", *TINY, "--epochs", "1", "--out", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        patch.setattr("pdqat.runs.seal.write_atomically", interrupted)
        assert main(given) == 130
    assert list(tmp_path.iterdir()) == []
    assert main(given) == 0
    capsys.readouterr()


def test_a_folder_that_is_no_run_is_not_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    said = refusal(capsys, "train", *TINY, "--out", tmp_path / "mine")
    assert said == f"pdqat: {tmp_path / 'mine'} exists; give another --out\n"
