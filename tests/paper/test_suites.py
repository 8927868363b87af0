"""Which cells each suite has, and what they train."""

import dataclasses
from pathlib import Path

import pytest

from pdqat.config.train_config import Method, TrainConfig
from pdqat.config.words import OWN_PROTOCOLS
from pdqat.experiments.cells import Cell
from pdqat.experiments.protocol import Protocol
from pdqat.paper import published
from pdqat.paper.protocols import PROTOCOLS, own_protocol
from pdqat.paper.suites import SUITES, cells
from pdqat.paper.suites.ingredients import ADDED
from pdqat.paper.suites.tiny import WARM_UP, tiny

EVERY_CELL = [cell for suite in SUITES for cell in cells(suite, 2)]


def test_cells_of_one_name_are_the_same_cell_in_every_suite() -> None:
    by_name: dict[str, Cell] = {}
    for cell in EVERY_CELL:
        assert by_name.setdefault(cell.name, cell) == cell


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.name)
def test_every_cell_has_a_configuration_that_says_what_it_trains(protocol: Protocol) -> None:
    for cell in EVERY_CELL:
        if cell.kept is None:
            config = cell.config(protocol, Path("folder"))
            assert config.method is cell.method
            assert config.seed == cell.seed
            assert cell.method is Method.FULL or config.bits == [str(cell.bits)]
            if cell.method is Method.PDQAT_OUTPUT:
                assert config.output_tolerance == cell.tolerance
            if cell.method is Method.PDQAT_LAYERS:
                assert config.layer_tolerance == cell.tolerance
                assert config.output_tolerance == cell.output_tolerance


@pytest.mark.parametrize("suite", ["", *OWN_PROTOCOLS])
def test_cells_that_differ_train_something_else(suite: str) -> None:
    by_config: dict[str, str] = {}
    for cell in EVERY_CELL:
        if cell.kept is None and cell.suite == suite:
            config = str(dataclasses.asdict(cell.config(own_protocol(suite), Path("folder"))))
            assert by_config.setdefault(config, cell.name) == cell.name


def test_the_paper_protocol_is_the_papers() -> None:
    config = cells("table1", 1)[1].config(PROTOCOLS["full"], Path("folder"))
    assert (config.data, config.model, config.width, config.epochs) == ("cifar10", "preresnet20", 5, 100)
    assert (config.lr, config.dual_rate, config.layer_distance) == (1e-3, 0.01, "squared")
    assert PROTOCOLS["full"].seeds == 5


def test_side_questions_compare_with_cells_of_table_1() -> None:
    table = cells("table1", 1)
    for bits, suite in ((2, "gap"), (1, "gap-1bit")):
        assert cells(suite, 1)[:2] == [cell for cell in table if cell.bits == bits][:2]


def test_the_budget_moves_multipliers_as_far_as_the_paper() -> None:
    budget, full = (cells("table1", 1)[1].config(PROTOCOLS[name], Path("folder")) for name in ("budget", "full"))
    assert budget.epochs * budget.dual_rate == pytest.approx(full.epochs * full.dual_rate)


def test_table_1_has_a_cell_for_every_published_number() -> None:
    assert {(cell.bits, cell.method) for cell in cells("table1", 1)} == set(published.TABLE_1)


def test_the_ablations_have_a_cell_for_every_published_number() -> None:
    for suite, numbers in (
        ("ablation-output", published.OUTPUT_ABLATION),
        ("ablation-layer", published.LAYER_ABLATION),
    ):
        assert {(cell.bits, cell.tolerance) for cell in cells(suite, 1)} == set(numbers)


def test_suites_share_what_they_have_in_common() -> None:
    table, ablation = ({cell.name for cell in cells(suite, 1)} for suite in ("table1", "ablation-layer"))
    assert {"pdqat-layers-2bit-0.67-seed0", "pdqat-layers-1bit-1-seed0"} <= table & ablation
    assert {cell.name for cell in cells("duals", 1)} <= ablation


def test_tiny_is_named_by_recipe_and_trains_four_and_eight_bits_once_and_last() -> None:
    names = [cell.name for cell in cells("tiny", 3)]
    assert names[0] == "tiny-ste-2bit-seed0"
    by_bits = {bits: [name for name in names if f"-{bits}bit-" in name] for bits in (2, 1, 4, 8, 32)}
    assert [len(of_bits) for of_bits in by_bits.values()] == [21, 21, 7, 7, 3]
    assert set(names[-14:]) == {*by_bits[4], *by_bits[8]}
    assert all(name.endswith("-seed0") for name in names[-14:])


def test_recipes_of_tiny_share_their_epochs_and_warm_ones_their_start() -> None:
    protocol = own_protocol("tiny")
    configs = {cell.recipe: cell.config(protocol, Path("folder")) for cell in tiny(1)}
    assert {(config.model, config.epochs, config.lr, config.norm_batches) for config in configs.values()} == {
        ("preresnet8", 30, 1e-2, 20)
    }
    warm = {recipe for recipe, config in configs.items() if config.warm_up}
    assert warm >= {"ste-warm", "lsq-warm"}
    assert not warm & {"ste", "pdqat-output", "pdqat-layers"}
    assert {configs[recipe].warm_up for recipe in warm - {"best"}} == {WARM_UP}
    assert configs["lsq-warm"].quantizer == "lsq"
    assert {recipe for recipe, config in configs.items() if config.optimizer == "muon"} == {"best", "ste-normal-muon"}
    assert configs["pdqat-layers"].output_distance == "cross-entropy"


def test_the_best_recipe_is_what_is_trained_unless_told_otherwise() -> None:
    config = next(cell for cell in tiny(0) if cell.recipe == "best").config(own_protocol("tiny"), Path("folder"))
    expected = TrainConfig(data="cifar10", model="preresnet8", epochs=30, compile=True)
    assert config == expected


def test_ingredients_are_added_to_one_base_one_by_one() -> None:
    protocol = own_protocol("ingredients")
    assert (protocol.name, protocol.seeds) == ("tiny", 1)
    by_recipe = {cell.recipe: cell for cell in cells("ingredients", 1) if cell.bits == 1}
    base = dataclasses.asdict(by_recipe["base"].config(protocol, Path("folder")))
    assert (base["method"], base["output_distance"], base["gradient"]) == ("pdqat-output", "kl", "straight-through")
    assert base["norm_batches"] > 0
    for recipe, options in ADDED.items():
        config = dataclasses.asdict(by_recipe[recipe].config(protocol, Path("folder")))
        assert {key: config[key] for key in config if config[key] != base[key]} == options


def test_the_teacher_is_trained_for_twice_as_long_and_named_from_the_cells_folder() -> None:
    protocol = own_protocol("ingredients")
    by_recipe = {cell.recipe: cell for cell in cells("ingredients", 1) if cell.bits != 1}
    taught, teacher = by_recipe["teacher"], by_recipe["float-twice-as-long"]
    assert taught.needs == teacher
    assert taught.config(protocol, Path("folder")).teacher == "../ingredients-float-twice-as-long-32bit-seed0"
    assert teacher.config(protocol, Path("folder")).epochs == 2 * taught.config(protocol, Path("folder")).epochs


def test_scale_has_both_sides_at_every_width_and_length() -> None:
    protocol = own_protocol("scale")
    sizes: dict[str, set[tuple[int, int]]] = {}
    for cell in cells("scale", 1):
        config = cell.config(protocol, Path("folder"))
        assert (config.image_size, config.train_images, config.bits) == (16, 10_000, ["1"])
        assert cell.recipe == "ste" or config.gradient == "exact"
        sizes.setdefault(cell.recipe, set()).add((config.width, config.epochs))
    both = {(width, epochs) for width in (1, 2, 4) for epochs in (2, 6, 20)}
    assert sizes == {"ste": both, "pdqat-layers-exact": both}
    assert cells("scale", 1)[1].name == "scale-pdqat-layers-exact-1bit-width1-x1-seed0"
