"""What Weights & Biases keeps offline, read back from its files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("wandb", reason="the extra wandb is not installed")

import wandb
from wandb.proto import wandb_internal_pb2

from interrupted import Interrupt
from own_problem import fitted, own_problem
from pdqat.trackers import log_to
from pdqat.trackers.entries import numbers_in

pytestmark = pytest.mark.slow  # a process of its own starts


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT", "WANDB_NAME", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield
    wandb.teardown()  # also where a test failed


HEADER = 7
"""Bytes before the first record of a file, and before every part of a record: checksum, length, kind."""
BLOCK = 32 * 1024
LAST_PARTS = (1, 4)


def records(file: Path) -> Iterator[Any]:
    """By the format of LevelDB's logs: records in parts that no border of a block goes through."""
    data, place, whole = file.read_bytes(), HEADER, b""
    assert data.startswith(b":W&B")
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        whole += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in LAST_PARTS:
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def history_of(file: Path) -> list[dict[str, Any]]:
    found = [record.history for record in records(file) if record.WhichOneof("record_type") == "history"]
    return [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in history.item}
        for history in found
    ]


def files(folder: Path) -> list[Path]:
    wandb.teardown()  # its process writes on for a moment
    return sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))


def test_numbers_histograms_plan_and_report_are_in_the_file(tmp_path: Path) -> None:
    with log_to("wandb", tmp_path / "mine", {"bits": 2}) as log:
        history = fitted(own_problem(), callbacks=[log])
        (tmp_path / "report.html").write_text("<p>report</p>")
        log.keep_page(tmp_path / "report.html")
    (file,) = files(tmp_path / "mine")
    steps = history_of(file)
    assert [step["_step"] for step in steps] == [1, 2, 3]
    for entry, step in zip(history.epochs, steps[:2], strict=True):
        assert {name: step[name] for name in numbers_in(entry)} == pytest.approx(numbers_in(entry))
        assert step["weights/2-bit/4/_type"] == step["levels/2-bit/4/_type"] == "histogram"
    page = file.parent / "files" / steps[2]["report/path"]
    assert page.read_text() == "<p>report</p>"
    text = file.read_bytes()
    assert b"plan/2-bit" in text
    assert b"final/accuracy/2-bit/validation" in text


def test_a_resumed_training_goes_on_under_the_same_id_with_every_epoch_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt), log_to("wandb", run) as log:
        fitted(own_problem(), epochs=4, out=run, callbacks=[log, Interrupt(epoch=2)])
    with log_to("wandb", run) as log:
        history = fitted(own_problem(), epochs=4, out=run, resume=True, callbacks=[log])
    sittings = files(run)
    assert len({file.name for file in sittings}) == 1
    logged = [(step["_step"], step["loss"]) for file in sittings for step in history_of(file)]
    assert sorted(logged) == [(entry["epoch"], pytest.approx(entry["loss"])) for entry in history.epochs]
