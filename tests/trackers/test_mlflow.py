"""MLflow's database and artifacts, read back by SQL and from disk."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="the extra mlflow is not installed")

from interrupted import Interrupt, Snapshots
from own_problem import fitted, own_problem
from pdqat.errors import InputError
from pdqat.trackers import log_to
from pdqat.trackers.entries import numbers_in
from pdqat.trackers.mlflow import MLflow, _name
from pdqat.trackers.tracker import Training

pytestmark = pytest.mark.slow  # a new database takes seconds


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which MLflow makes its database, as it does by itself in the current one."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def _here(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def rows(store: Path, query: str, *values: Any) -> list[Any]:
    database = sqlite3.connect(store / "mlflow.db")
    try:
        return database.execute(query, values).fetchall()
    finally:
        database.close()


def run_of(folder: Path) -> str:
    return str(json.loads((folder / "mlflow.json").read_text())["run"])


def series(store: Path, run: str, name: str) -> list[tuple[int, float]]:
    return rows(store, "select step, value from metrics where run_uuid = ? and key = ? order by step", run, name)


def test_numbers_options_histograms_plan_and_report_are_in_the_store(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    problem = own_problem()
    with log_to("mlflow", folder, {"bits": 2}) as log:
        history = fitted(problem, callbacks=[log])
        (tmp_path / "report.html").write_text("<p>report</p>")
        log.keep_page(tmp_path / "report.html")
    run = run_of(folder)
    for name in numbers_in(history.epochs[0]):
        assert series(store, run, name) == [(entry["epoch"], numbers_in(entry)[name]) for entry in history.epochs]
    assert series(store, run, "final/accuracy/2-bit/validation") == [(2, history.scores["2-bit"]["validation"])]
    assert rows(store, "select key, value from params where run_uuid = ?", run) == [("bits", "2")]
    [(name, status, uri)] = rows(store, "select name, status, artifact_uri from runs where run_uuid = ?", run)
    assert (name, status) == ("mine", "FINISHED")
    artifacts = Path(uri.removeprefix("file://"))
    assert (artifacts / "report.html").read_text() == "<p>report</p>"
    assert '4 = "2"' in (artifacts / "plan" / "2-bit.toml").read_text()
    bars = json.loads((artifacts / "histograms" / "epoch-0002.json").read_text())["weights/2-bit/4"]
    assert sum(bars["counts"]) == problem.net.layers["4"].weight.numel()


@pytest.mark.parametrize("before", [True, False], ids=["killed before it was logged", "killed after"])
def test_a_killed_training_that_is_resumed_goes_on_in_the_same_run(store: Path, tmp_path: Path, before: bool) -> None:
    run = tmp_path / "run"
    log, copying = log_to("mlflow", run), Snapshots(run, tmp_path)
    stopping = Interrupt(epoch=2)
    order = [copying, stopping, log] if before else [log, copying, stopping]
    with pytest.raises(KeyboardInterrupt):
        fitted(own_problem(), epochs=4, out=run, callbacks=order)
    killed = tmp_path / "2"
    history = fitted(own_problem(), epochs=4, out=killed, resume=True, callbacks=[log_to("mlflow", killed)])
    assert run_of(killed) == run_of(run)
    losses = [(entry["epoch"], entry["loss"]) for entry in history.epochs]
    assert series(store, run_of(killed), "loss") == losses


def test_a_training_that_starts_anew_is_a_new_run(tmp_path: Path) -> None:
    first = MLflow(Training(tmp_path))
    assert first.open(0) == 0
    first.log(1, {"loss": 1.0}, {})
    before = run_of(tmp_path)
    again = MLflow(Training(tmp_path))
    assert again.open(0) == 0
    assert run_of(tmp_path) != before


def test_more_numbers_than_one_request_takes_are_all_logged(store: Path, tmp_path: Path) -> None:
    tracker = MLflow(Training(tmp_path))
    tracker.open(0)
    tracker.log(1, {f"slack/{index}": float(index) for index in range(2500)}, {})
    counted = rows(store, "select count(*) from metrics where run_uuid = ? and key like 'slack/%'", run_of(tmp_path))
    assert counted == [(2500,)]


@pytest.mark.parametrize("name", ["slack/2-bit/layer/a<b>%$", "a//b", "../up", "/root", "end/", "x" * 300, "ü\x1b[2J"])
def test_names_that_mlflow_refuses_are_logged_under_similar_ones(store: Path, tmp_path: Path, name: str) -> None:
    tracker = MLflow(Training(tmp_path))
    tracker.open(0)
    tracker.log(1, {name: 1.0}, {})
    assert series(store, run_of(tmp_path), _name(name)) == [(1, 1.0)]


def test_a_store_that_there_is_none_of_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://at/all")
    with pytest.raises(InputError, match=r"^can't log to mlflow: "):
        fitted(own_problem(), callbacks=[log_to("mlflow", tmp_path / "mine")])
