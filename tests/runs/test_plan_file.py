"""Plans as files."""

from pathlib import Path

import pytest

from pdqat.errors import InputError
from pdqat.precision import FULL, Precision
from pdqat.runs.plan_file import PlanModel, check_model, read_plan, write_plan

PLAN = {"a.b": Precision(4, 8), "c": FULL, "d": Precision(None, 2)}


def test_a_plan_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    for model in (None, PlanModel("preresnet20", 5)):
        write_plan(tmp_path / "plan.toml", PLAN, "by hand", model)
        assert read_plan(tmp_path / "plan.toml") == PLAN


def test_a_plan_that_names_no_model_fits_any(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", PLAN, "by hand")
    check_model(tmp_path / "plan.toml", PlanModel("preresnet20", 5))
    write_plan(tmp_path / "plan.toml", PLAN, "by hand", PlanModel("preresnet20", 5))
    with pytest.raises(InputError, match="is of preresnet20 of width 5, but the model to train is resnet20 of width 5"):
        check_model(tmp_path / "plan.toml", PlanModel("resnet20", 5))


@pytest.mark.parametrize("text", ["", "layers = 3", "[layers]", "[other]\na = '2'", "[layers]\na = '9'", "no toml"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="plan"):
        read_plan(path)
