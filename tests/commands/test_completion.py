"""`pdqat --completion`: what a shell offers when the tab key is pressed."""

import subprocess
from pathlib import Path

import pytest

from command_line import refusal
from pdqat.cli import main
from pdqat.flags.completion import SHELLS

OFFERED = r"""
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_shtab_pdqat
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "pdqat.bash"
    with pytest.MonkeyPatch.context() as patch, path.open("w") as file:
        patch.setattr("sys.stdout", file)
        with pytest.raises(SystemExit) as leaving:
            main(["--completion", "bash"])
    assert leaving.value.code == 0
    return path


def offered(script: Path, folder: Path, *typed: str) -> list[str]:
    """What bash itself offers for the last word."""
    command = ["bash", "-c", OFFERED, "bash", str(script), "pdqat", *typed]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["tr"], ["train"]),
        (["paper", "r"], ["run"]),
        (["train", "--quant"], ["--quantizer"]),
        (["train", "--quantizer", "uniform"], ["uniform", "uniform-channel"]),
        (["train", "--preset", "q"], ["quickstart"]),
        (["train", "--data", "cifar"], ["cifar10", "cifar100"]),
        (["sensitivity", "--rank", "h"], ["hessian"]),
        (["export", "--format", "q"], ["qonnx"]),
        (["show", "my-"], ["my-run"]),
        (["train", "--from", "my-"], ["my-run"]),
    ],
)
def test_bash_offers_commands_options_words_and_files(
    script: Path, tmp_path: Path, typed: list[str], expected: list[str]
) -> None:
    (tmp_path / "my-run").mkdir()
    assert offered(script, tmp_path, *typed) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_of_all_commands(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    with pytest.raises(SystemExit):
        main(["--completion", shell])
    said = capsys.readouterr().out
    assert all(word in said for word in ("train", "sensitivity", "--layer-tolerance" if shell != "tcsh" else "paper"))


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "choose one of bash, zsh, fish, tcsh" in refusal(capsys, "--completion", "cmd")
