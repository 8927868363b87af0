"""Where a run's values come from: defaults, presets, files and flags."""

from typing import Any

import pytest

from pdqat.config.presets import PRESETS, resolve_config
from pdqat.config.train_config import TrainConfig
from pdqat.errors import InputError


def test_flags_override_the_file_which_overrides_the_preset_which_overrides_the_defaults() -> None:
    file = {"lr": 0.2, "epochs": 7}
    config = resolve_config("quickstart", file, {"epochs": 9})
    assert config.epochs == 9
    assert config.lr == 0.2
    assert config.layer_tolerance == PRESETS["quickstart"]["layer_tolerance"]
    assert config.batch_size == TrainConfig().batch_size


def test_nothing_given_is_the_defaults() -> None:
    assert resolve_config(None, {}, {}) == TrainConfig()


def test_a_file_may_name_a_preset() -> None:
    named = resolve_config(None, {"preset": "quickstart", "epochs": 3}, {})
    assert named == resolve_config("quickstart", {"epochs": 3}, {})


def test_a_preset_on_the_command_line_replaces_the_one_in_the_file() -> None:
    assert resolve_config("quickstart", {"preset": "paper"}, {}) == resolve_config("quickstart", {}, {})


@pytest.mark.parametrize("preset", ["nature", "", 3, ["paper"]])
def test_an_unknown_preset_is_refused(preset: Any) -> None:
    with pytest.raises(InputError, match=r"unknown preset .*; choose one of best, quickstart, paper"):
        resolve_config(None, {"preset": preset}, {})


@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_a_resolved_configuration_means_the_same_without_its_preset(preset: str | None) -> None:
    config = resolve_config(preset, {}, {})
    assert "preset" not in config.as_options()
    assert resolve_config(None, config.as_options(), {}) == config


def test_the_paper_preset_has_the_numbers_of_the_appendix() -> None:
    config = resolve_config("paper", {}, {})
    assert (config.data, config.model, config.width) == ("cifar10", "preresnet20", 5)
    assert (config.epochs, config.batch_size, config.lr) == (100, 128, 1e-3)
    assert (config.milestones, config.decay) == ([0.5, 0.75, 0.9], 0.1)
    assert (config.dual_rate, config.dual_rule, config.dual_every, config.dual_slack) == (0.01, "ascent", 0, "fresh")
    assert config.dual_samples is None, "slacks over the whole training set"
    assert (config.validation, config.augment, config.quantizer) == (0.1, True, "dorefa")
    assert (config.output_distance, config.layer_distance) == ("cross-entropy", "squared")
    assert (config.objective, config.gradient) == ("full", "exact")
    assert (config.tied_norms, config.view_sample) == (False, 1.0)


@pytest.mark.parametrize(
    ("given", "fitting"),
    [
        ({}, ("normal", "low", True, 0.25)),
        ({"method": "ste"}, ("dorefa", "low", True, 0.25)),
        ({"objective": "full"}, ("normal", "full", False, 1.0)),
        ({"gradient": "norms"}, ("normal", "full", False, 1.0)),
        ({"gradient": "exact", "tied_norms": True, "quantizer": "uniform"}, ("uniform", "full", True, 1.0)),
        ({"preset": "paper", "gradient": "straight-through"}, ("dorefa", "full", False, 1.0)),
    ],
)
def test_what_is_not_said_fits_what_is(given: dict[str, Any], fitting: tuple[Any, ...]) -> None:
    config = resolve_config(None, {}, given)
    assert (config.quantizer, config.objective, config.tied_norms, config.view_sample) == fitting


@pytest.mark.parametrize(
    ("given", "fitting"),
    [
        ({}, ("muon", 0.1)),
        ({"method": "full"}, ("muon", 0.1)),
        ({"method": "ste"}, ("adam", 0.1)),
        ({"method": "ste", "optimizer": "muon"}, ("muon", 0.1)),
        ({"dual_rule": "nupi"}, ("muon", 0.1)),
        ({"dual_rule": "multiplicative"}, ("muon", 0.5)),
        ({"dual_rule": "multiplicative", "dual_rate": 0.2}, ("muon", 0.2)),
        ({"preset": "paper"}, ("adam", 0.01)),
    ],
)
def test_steps_that_are_not_said_fit_too(given: dict[str, Any], fitting: tuple[str, float]) -> None:
    config = resolve_config(None, {}, given)
    assert (config.optimizer, config.dual_rate) == fitting


def test_the_paper_preset_has_no_output_tolerance_for_a_plan() -> None:
    assert resolve_config("paper", {}, {"plan": {"stages.0.0.conv0": "8"}}).output_tolerance is None


@pytest.mark.parametrize(("bits", "tolerance"), [("8", 0.0039), ("4", 0.1), ("2", 0.7), ("1", 0.9), ("3", None)])
def test_the_paper_preset_has_the_output_tolerance_of_table_1(bits: str, tolerance: float | None) -> None:
    assert resolve_config("paper", {}, {"bits": [bits]}).output_tolerance == tolerance


def test_table_1_says_nothing_about_other_distances() -> None:
    assert resolve_config("paper", {}, {"output_distance": "kl"}).output_tolerance is None


def test_a_given_output_tolerance_wins_over_table_1() -> None:
    assert resolve_config("paper", {"output_tolerance": 0.3}, {"bits": ["4"]}).output_tolerance == 0.3
    assert resolve_config("paper", {}, {"bits": ["4"], "output_tolerance": 0.2}).output_tolerance == 0.2


def test_table_1s_tolerance_goes_by_the_plan_not_by_how_it_is_written() -> None:
    tolerances = {resolve_config("paper", {}, {"bits": [bits]}).output_tolerance for bits in ("2", "w2a2")}
    assert tolerances == {0.7}
