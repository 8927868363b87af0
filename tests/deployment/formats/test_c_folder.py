"""The format c: what is written, verified, replaced and refused."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from c_folders import self_test, small_network, write
from deployed_networks import frozen, images, labelled
from pdqat import InputError, Network, export, prepare
from pdqat.deployment.export import verify_file
from pdqat.deployment.formats import format_of
from pdqat.deployment.formats.c_place import replace_folder
from pdqat.deployment.report import ExportReport

FILES = ["Makefile", "README.md", "golden.h", "model.c", "model.h", "selftest.c"]


@pytest.fixture(scope="module")
def net() -> Network:
    return small_network()


@pytest.fixture(scope="module")
def exported(net: Network, tmp_path_factory: pytest.TempPathFactory) -> tuple[ExportReport, Path]:
    folder = tmp_path_factory.mktemp("run") / "model-c"
    return export(net, folder, images(2), check=iter(labelled(net, images(24))), format="c"), folder


def copied(exported: tuple[ExportReport, Path], folder: Path) -> Path:
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes((exported[1] / name).read_bytes())
    return folder


def with_one_weight_less(text: str) -> str:
    """A model whose first packed weights have one bit less."""
    start = text.index("0x", text.index("static const uint32_t layer"))
    word = text[start : start + len("0x01234567u")]
    changed = int(word[:-1], 16) & (int(word[:-1], 16) - 1)
    return f"{text[:start]}0x{changed:08x}u{text[start + len(word) :]}"


def test_a_folder_is_written_and_verified(exported: tuple[ExportReport, Path]) -> None:
    report, folder = exported
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert [file.name for file in folder.parent.iterdir()] == ["model-c"]
    (result,) = report.verified
    assert result.passes
    assert result.images == 24
    assert result.codes.exact.different == result.codes.edge.different == 0
    assert result.accuracy == 1
    assert report.footprint is not None
    shown = str(report)
    for number in (report.footprint.constants, report.footprint.arena, report.footprint.macs):
        assert f"{number:,}" in shown
    assert "in real numbers: 0, 8" in shown
    assert f"{len(report.footprint.real)} steps in real numbers, which its README.md names" in shown
    readme = (folder / "README.md").read_text()
    assert all(f"- {step}\n" in readme for step in report.footprint.real)


def test_its_self_test_passes_and_sees_every_change(exported: tuple[ExportReport, Path], tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "c")
    assert self_test(folder) == "".join(f"sample {index}: 0 differences\n" for index in range(3)) + "ok\n"
    (folder / "model.c").write_text(with_one_weight_less((folder / "model.c").read_text()))
    said = self_test(folder)
    assert re.search(r"^sample \d, layer \d+ \(\d\), index \d+: expected -?\d+, got -?\d+$", said, re.M)
    assert said.endswith("\ndifferent\n")


def test_make_check_runs_with_the_usual_flags(exported: tuple[ExportReport, Path], tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "c")
    done = subprocess.run(["make", "-C", folder, "check"], capture_output=True, text=True, check=True)
    assert "\nok\n" in done.stdout
    assert "-Wconversion -Werror -pedantic" in done.stdout


def test_a_folder_passes_again(net: Network, exported: tuple[ExportReport, Path]) -> None:
    assert format_of(exported[1]).name == "c"
    (result,) = verify_file(net, None, exported[1], images(2), labelled(net, images(5)))
    assert result.passes


def test_other_numbers_do_not_pass(net: Network, exported: tuple[ExportReport, Path], tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "c")
    (folder / "model.c").write_text(with_one_weight_less((folder / "model.c").read_text()))
    (result,) = verify_file(net, None, folder, images(2), labelled(net, images(24)))
    assert result.codes.exact.unexplained > 0
    assert not result.passes


def test_other_statements_are_never_run(net: Network, exported: tuple[ExportReport, Path], tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "c")
    text = (folder / "model.c").read_text()
    (folder / "model.c").write_text(text.replace("    return 0;\n}", "    __builtin_trap();\n    return 0;\n}"))
    with pytest.raises(
        InputError, match=r"model\.c was not exported from this network under this plan, or was changed"
    ):
        verify_file(net, None, folder, images(2), labelled(net, images(2)))


def test_a_folder_of_the_kind_is_replaced_and_no_other(net: Network, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    for content in ("model.c", "model.h", "selftest"):
        (folder / content).write_text("old")
    export(net, folder, images(2), check=labelled(net, images(2)), format="c")
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert [file.name for file in tmp_path.iterdir()] == ["c"]
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"can't be replaced: .*notes\.txt"):
        export(net, folder, images(2), check=labelled(net, images(2)), format="c")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="the format c is a folder, and there is a file of that name"):
        export(net, tmp_path / "file", images(2), check=labelled(net, images(2)), format="c")
    assert (folder / "notes.txt").read_text() == (tmp_path / "file").read_text() == "mine"


def test_without_a_compiler_nothing_is_written(net: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(InputError, match="there is no compiler 'no-such-compiler': install gcc or clang"):
        export(net, tmp_path / "c", images(2), check=labelled(net, images(2)), format="c")
    assert not list(tmp_path.iterdir())


def test_names_can_not_break_out_of_comments(tmp_path: Path) -> None:
    names = ["a*/ int x; /*", 'b"); puts("', "c\\\nd??/", "last"]
    model = nn.Sequential()
    for name, sizes in zip(names, ((4, 8), (8, 8), (8, 8), (8, 2)), strict=True):
        model.add_module(name, nn.Linear(*sizes))
    torch.manual_seed(0)
    x = torch.rand(8, 4)
    net = prepare(model, x, 2, quantizer="uniform").eval()
    report = export(net, tmp_path / "c", x, check=[(x, None)], format="c")
    assert report.verified[0].passes
    assert self_test(tmp_path / "c").endswith("\nok\n")
    for name in ("model.c", "golden.h"):
        text = (tmp_path / "c" / name).read_text()
        assert "a___int_x____" in text or "b____puts__" in text
        assert "int x; " not in text
        assert 'puts("' not in text


def test_what_can_not_be_written_is_refused_before_anything_is(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.rand(8, 4)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 2))
    net = prepare(model, x, 4, quantizer="uniform").eval()
    with pytest.raises(InputError, match="1: the function tanh can't be written to C"):
        export(net, tmp_path / "c", x, check=[(x, None)], format="c")
    assert not list(tmp_path.iterdir())


def test_the_report_is_data(exported: tuple[ExportReport, Path]) -> None:
    assert exported[0].footprint is not None
    footprint = exported[0].footprint
    header = (exported[1] / "model.h").read_text()
    assert f"#define MODEL_ARENA_BYTES {footprint.arena} " in header
    assert f"#define MODEL_MACS {footprint.macs}LL" in header
    assert footprint.least_arena <= footprint.arena
    assert json.dumps(footprint.__dict__)


def test_the_golden_samples_are_those_that_it_is_verified_on(tmp_path: Path) -> None:
    model = write(frozen(small_network()).module, images(1), tmp_path / "c")
    assert "#define GOLDEN_SAMPLES 1\n" in (tmp_path / "c" / "golden.h").read_text()
    assert len(model.layers) == 2


def folder_of_c(path: Path, text: str) -> Path:
    path.mkdir()
    for name in ("model.h", "model.c"):
        (path / name).write_text(text)
    return path


def test_the_old_folder_is_back_if_the_new_one_can_not_take_its_place(tmp_path: Path) -> None:
    folder_of_c(tmp_path / "model-c", "old")
    with pytest.raises(InputError, match="can't write"):
        replace_folder(tmp_path / "lost", tmp_path / "model-c")
    assert (tmp_path / "model-c" / "model.c").read_text() == "old"


def test_a_folder_left_behind_by_a_kill_is_no_loss(tmp_path: Path) -> None:
    """Killed between the two renames: the last good folder has the other name."""
    folder_of_c(tmp_path / ".replaced-model-c", "old")
    with pytest.raises(InputError, match="can't write"):
        replace_folder(tmp_path / "lost", tmp_path / "model-c")
    assert (tmp_path / "model-c" / "model.c").read_text() == "old"
    replace_folder(folder_of_c(tmp_path / "new", "new"), tmp_path / "model-c")
    assert (tmp_path / "model-c" / "model.c").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model-c"]
