"""What a C folder takes of the emulated core, by a folder that was written by hand."""

import shutil
from pathlib import Path

import pytest
import torch

from deployed_networks import labelled, trained_like
from pdqat import Network, prepare
from pdqat.deployment.export import export
from pdqat.deployment.microcontroller.beside import measure_beside
from pdqat.deployment.microcontroller.measurement import CoreMeasurement, measure_on_core, show_measured
from pdqat.errors import InputError
from pdqat.models.preresnet import PreResNet

BY_HAND = Path(__file__).parent / "by_hand"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(BY_HAND, tmp_path / "by_hand"))


@pytest.mark.slow
@pytest.mark.usefixtures("arm_core")
def test_numbers_are_those_of_the_program_and_repeat(folder: Path) -> None:
    (folder / "model.c").write_text(LOOPS.format(repeats=10, table=1000))
    few = measure_on_core(folder)
    assert few == measure_on_core(folder)
    assert few.arena == 8
    assert 1000 <= few.weights < 1040
    assert 0 < few.code < 400
    assert few.macs == 8
    (folder / "model.c").write_text(LOOPS.format(repeats=1000, table=3000))
    many = measure_on_core(folder)
    assert 2000 <= many.weights - few.weights <= 2004
    assert 990 * 8 * 4 < many.instructions - few.instructions < 990 * 8 * 40
    assert many.stack == few.stack


LOOPS = """
#include "model.h"
static const int8_t weights[2][4] = {{{{1, -2, 3, -4}}, {{5, 6, -7, 8}}}};
static const uint8_t table[{table}] = {{1}};
static int32_t arena[2];
int model_run(const model_input_t *input, model_score_t *scores)
{{
    for (volatile int repeat = 0; repeat < {repeats}; repeat++)
        for (int score = 0; score < 2; score++) {{
            arena[score] = 0;
            for (volatile int index = 0; index < 4; index++)
                arena[score] += weights[score][index] * input[index] * table[repeat / 4000];
            scores[score] = arena[score];
        }}
    return 0;
}}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("arm_core")
def test_stack_is_seen_where_a_run_uses_it(folder: Path) -> None:
    program = (folder / "model.c").read_text()
    plain = measure_on_core(folder).stack
    deep = "    volatile uint8_t deep[5000];\n    for (int index = 0; index < 5000; index++)\n        deep[index] = 1;"
    (folder / "model.c").write_text(program.replace("    for (int score", f"{deep}\n    for (int score", 1))
    assert plain < 5000 <= measure_on_core(folder).stack <= 5100


@pytest.mark.slow
@pytest.mark.usefixtures("arm_core")
def test_a_self_test_that_fails_on_the_core_is_an_error(folder: Path) -> None:
    golden = (folder / "golden.h").read_text()
    (folder / "golden.h").write_text(golden.replace("-1014", "-1015"))
    with pytest.raises(
        InputError, match=r"selftest.elf fails on the emulated Arm core: score 0: expected -1015, got -1014"
    ):
        measure_on_core(folder)


@pytest.mark.slow
@pytest.mark.usefixtures("arm_core")
def test_what_does_not_compile_is_said(folder: Path) -> None:
    (folder / "model.c").write_text("int model_run(void) { return nothing; }")
    with pytest.raises(InputError, match=r"can't be compiled for the Arm core: .*error: 'nothing' undeclared"):
        measure_on_core(folder)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no folder of `pdqat export --format c`: it has no model.c"):
        measure_on_core(tmp_path)


def test_without_the_tools_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="needs arm-none-eabi-gcc and qemu-system-arm: apt-get install gcc-arm"):
        measure_on_core(BY_HAND)


def test_a_row_has_all_numbers() -> None:
    shown = show_measured({"2 bits": CoreMeasurement(20_000, 3_000, 40_000, 500, None, 9_000_000)})
    row = shown.strip().splitlines()[-1].split()
    assert row == ["2", "bits", "20,000", "3,000", "40,000", "500", "-", "9,000,000"]


def network() -> Network:
    torch.manual_seed(0)
    images = torch.rand(8, 3, 8, 8)
    net = prepare(PreResNet(1, (16, 16, 32)), images, 2, ends=8, quantizer="dorefa-bytes", integer_sums=True)
    return trained_like(net, 1, draw=torch.rand)


@pytest.mark.slow
@pytest.mark.usefixtures("arm_core")
def test_an_export_stands_beside_8_bits_and_float32(tmp_path: Path) -> None:
    net = network()
    export(net, tmp_path / "c", net.example, check=labelled(net, net.example), format="c")
    measured, text = measure_beside(tmp_path / "c", net, net.example)
    assert list(measured) == ["c", "8 bits", "float32"]
    rows = [line.split() for line in text.splitlines()[-3:]]
    names = [" ".join(row[:-6]) for row in rows]
    weights, code, arena, _, macs, instructions = zip(
        *([int(cell.replace(",", "")) for cell in row[-6:]] for row in rows), strict=True
    )
    assert names == ["c", "8 bits", "float32"]
    for numbers in (weights, arena):
        assert list(numbers) == sorted(numbers)
    assert max(instructions) == instructions[-1]
    assert len(set(macs)) == 1
    assert all(code)


def test_an_export_without_the_tools_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    net = network()
    measured, text = measure_beside(tmp_path, net, net.example)
    assert measured == {}
    assert "instructions are not measured: the emulated Arm core needs" in text
