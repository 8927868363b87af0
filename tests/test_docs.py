"""The documentation holds: its code runs, its commands exist, its lines are short and its front page is too."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pdqat
from documentation import PAGES, ROOT, blocks_in, pages_with, prose_of, text_of
from pdqat.cli import _parser

SHOWN_ONLY = {"text", "c", "json", "toml"}
STAND_INS = ROOT / "tests" / "stand_ins"


def what_a_reader_has() -> dict[str, object]:
    """A model and data for pages that speak of the reader's own."""
    torch.manual_seed(0)
    images, labels = torch.rand(96, 1, 8, 8), torch.arange(96) % 10
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)),
    )
    held_out = DataLoader(TensorDataset(images, labels), batch_size=48)
    return {
        "pdqat": pdqat,
        "model": model,
        "example": images[:32],
        "train_loader": DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True),
        "validation_loader": held_out,
        "test_loader": held_out,
    }


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_blocks_run_from_the_first_to_the_last(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = what_a_reader_has()
    if "prepare(" not in text_of(page):
        names["net"] = pdqat.prepare(names["model"], names["example"], bits=4)  # type: ignore[arg-type]
    for block in blocks_in(page, "python"):
        exec(compile(block, page, "exec"), names)


def commands_in(block: str) -> list[list[str]]:
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


@pytest.mark.parametrize("page", pages_with("sh"))
def test_the_command_line_understands_every_command_in_a_block(page: str) -> None:
    for block in blocks_in(page, "sh"):
        for command in commands_in(block):
            if command[:1] == ["pdqat"]:
                _parser().parse_args(command[1:])


@pytest.mark.parametrize("page", PAGES)
def test_options_of_commands_within_sentences_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for span in re.findall(r"`pdqat ([a-z][^`]*)`", prose_of(page)):
        words = shlex.split(span.replace("\n", " "))
        names = [word for word in words if word.isalpha() and word.islower()]
        command = names[:2] if names[0] == "paper" else names[:1]
        with pytest.raises(SystemExit):
            _parser().parse_args([*command, "--help"])
        known = capsys.readouterr().out
        assert [word for word in words if word.startswith("--") and word.partition("=")[0] not in known] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("sh"))
def test_shell_blocks_run_from_the_first_to_the_last(page: str, tmp_path: Path) -> None:
    """As they are written; `tests/stand_ins` makes trainings small and keeps pip and make from installing."""
    _what_a_reader_has_on_disk(tmp_path)
    path = os.pathsep.join([str(STAND_INS), str(Path(sys.executable).parent), os.environ["PATH"]])
    python_path = os.pathsep.join(map(str, [tmp_path, ROOT / "src", ROOT / "tests"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": python_path, "PDQAT_DATA": str(tmp_path / "data")}
    script = "set -euo pipefail\n" + "\n".join(blocks_in(page, "sh"))
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def _what_a_reader_has_on_disk(folder: Path) -> None:
    """The modules and photos that the page on own models speaks of."""
    model, data = blocks_in("docs/own-models.md", "python")[0].split("images, labels =")
    (folder / "mynets.py").write_text(model)
    (folder / "mydata.py").write_text(f"import torch\nimages, labels ={data}\ndef load():\n    return loader, loader\n")
    for part, name in (("train", "cat"), ("train", "dog"), ("test", "cat"), ("test", "dog")):
        photos = folder / "photos" / part / name
        photos.mkdir(parents=True)
        for shade in range(20):
            Image.new("RGB", (40, 30), (shade, 9 * shade, 250 - shade)).save(photos / f"{shade}.png")


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_no_line_of_prose_is_longer_than_120_characters(page: str) -> None:
    lines = prose_of(page).splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


@pytest.mark.parametrize("page", PAGES)
def test_code_stands_in_fences_so_that_it_is_known_what_runs(page: str) -> None:
    assert set(re.findall(r"^```(.+)$", text_of(page), re.MULTILINE)) <= {"python", "sh", *SHOWN_ONLY}
    assert re.findall(r"\n\n {4}\S.*", prose_of(page)) == []


def test_the_maths_names_files_that_exist() -> None:
    named = re.findall(r"`([\w/]+/(?:\w+\.py)?)`", text_of("docs/method.md"))
    assert len(named) > 12
    assert [name for name in named if not any((root / name).exists() for root in (ROOT, ROOT / "src" / "pdqat"))] == []


def test_the_reference_lists_every_command_and_every_public_name() -> None:
    (commands,) = [action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)]
    assert [name for name in commands.choices if f"`{name}`" not in text_of("docs/command-line.md")] == []
    names = [name for name in pdqat.__all__ if name != "__version__"]
    assert [name for name in names if f"`{name}`" not in text_of("docs/api/index.md").replace("pdqat.", "")] == []


def test_the_front_page_is_short() -> None:
    assert len(text_of("README.md").split()) <= 900
    assert text_of("README.md").count("![") <= 1


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_from_the_repository_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        target, _, heading = link.partition("#")
        assert (ROOT / target).exists(), link
        if heading:
            headings = re.findall(r"^#+ (.*)$", text_of(target), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings], link
