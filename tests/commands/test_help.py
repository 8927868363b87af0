"""`--help`: within 80 columns, options under headings, and without importing what a command works with."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

import pdqat
from pdqat.cli import main
from pdqat.config.train_config import TrainConfig
from pdqat.flags.train import HEADINGS, OTHERS

COMMANDS = [
    *([], ["train"], ["eval"], ["show"], ["sensitivity"], ["plan"], ["export"], ["verify"], ["bench"], ["data"]),
    ["seal"],
    *(["report"], ["paper"], ["paper", "run"], ["paper", "show"]),
]
WITHOUT = """
import json, sys
from pdqat.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        code = main(arguments)
    except SystemExit as leaving:
        code = leaving.code
    assert code == (2 if "--nonsense" in arguments else 0), arguments
heavy = ("torch", "numpy", "scipy", "sklearn", "onnx", "onnxruntime", "openvino", "matplotlib", "rich")
print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""


def help_of(capsys: pytest.CaptureFixture[str], command: list[str]) -> str:
    with pytest.raises(SystemExit) as leaving:
        main([*command, "--help"])
    assert leaving.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_lines_fit_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, help_of(capsys, command).splitlines())) <= 80


def test_options_of_train_stand_under_headings_with_ten_that_matter_first(capsys: pytest.CaptureFixture[str]) -> None:
    sections = re.split(r"^(\S.*):$", help_of(capsys, ["train"]), flags=re.MULTILINE)[1:]
    headings, texts = sections[::2], sections[1::2]
    assert headings == list(HEADINGS)
    options = [re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE) for text in texts]
    assert options[0] == [
        *("--preset", "--data", "--model", "--bits", "--epochs"),
        *("--budget", "--plan", "--from", "--out", "--resume"),
    ]


def test_every_option_of_train_stands_under_one_heading() -> None:
    shown = [name for names in HEADINGS.values() for name in names]
    assert len(shown) == len(set(shown))
    assert set(shown) == {field.name for field in dataclasses.fields(TrainConfig)} | set(OTHERS)


def test_neither_help_nor_version_nor_a_misspelling_imports_torch() -> None:
    commands = [["--version"], ["train", "--nonsense"], *([*command, "--help"] for command in COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(commands)], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_every_public_name_can_be_imported() -> None:
    for name in pdqat.__all__:
        assert getattr(pdqat, name) is not None
        assert name in dir(pdqat)
    assert pdqat.data.NAMES
    with pytest.raises(AttributeError, match="module 'pdqat' has no attribute 'perpare'"):
        pdqat.perpare  # noqa: B018
