"""What `pdqat paper show` makes of finished cells."""

from pathlib import Path

import pytest

from pdqat.config.train_config import Method
from pdqat.experiments.cells import Cell
from pdqat.paper.artefacts import ARTEFACTS
from pdqat.paper.protocols import PROTOCOLS, own_protocol
from pdqat.paper.show import as_files, entries_to_show, seeds_to_show, titled
from pdqat.paper.suites import SUITES

RESULTS = Path(__file__).parents[2] / "results"
OWN, QUICK, ROUNDED = RESULTS / "paper", RESULTS / "paper-quick", RESULTS / "paper-rounded"
FOLDERS = (OWN, QUICK, ROUNDED)
COMMITTED = [(folder, suite) for folder in FOLDERS for suite in SUITES if (folder / f"{suite}.json").exists()]


@pytest.mark.parametrize(("folder", "suite"), COMMITTED)
def test_committed_cells_still_give_the_committed_tables(folder: Path, suite: str) -> None:
    """Their configurations are of earlier versions, with keys that have other names today."""
    protocol = own_protocol(suite) if folder == OWN else PROTOCOLS["quick"]
    shown = entries_to_show(suite, protocol, folder)
    for file, content in as_files(suite, titled(ARTEFACTS[suite](shown).tables, shown), shown).items():
        assert content.decode() == (folder / file).read_text(), file


def test_there_are_committed_cells_in_all_folders() -> None:
    assert {folder for folder, _ in COMMITTED} == set(FOLDERS)


def test_a_later_seed_is_shown_though_an_earlier_one_was_not_begun(tmp_path: Path) -> None:
    trial = PROTOCOLS["trial"]
    assert seeds_to_show("table1", trial, tmp_path) == trial.seeds
    Cell(Method.STE, 2, 2).run(tmp_path).path.mkdir(parents=True)
    assert seeds_to_show("table1", trial, tmp_path) == 3
    assert seeds_to_show("duals", trial, tmp_path) == trial.seeds, "which has no such cell"
