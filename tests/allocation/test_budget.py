import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdqat.allocation.budget import Amount, Budget, Unit
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import FULL, Precision

SIZES = {"a": LayerSize(100, 1000), "b": LayerSize(300, 50)}


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("2.5 bits", Unit.BITS, 2.5),
        ("1bit", Unit.BITS, 1),
        ("12.5 %", Unit.PERCENT, 12.5),
        ("8%", Unit.PERCENT, 8),
        ("40 KB", Unit.BYTES, 40_000),
        ("1 KiB", Unit.BYTES, 1024),
        ("1.5mb", Unit.BYTES, 1_500_000),
        ("700 bytes", Unit.BYTES, 700),
        ("0.5 GBOPs", Unit.BOPS, 5e8),
        ("3e2 MBOPs", Unit.BOPS, 3e8),
    ],
)
def test_a_budget_is_read_with_its_unit(text: str, unit: Unit, amount: float) -> None:
    (read,) = Budget.parse(text).amounts
    assert read.unit is unit
    assert read.number == pytest.approx(amount)


def test_several_amounts_are_one_budget() -> None:
    budget = Budget.parse("40 KB and 0.5 GBOPs AND 3 bits")
    assert budget.amounts == (Amount(Unit.BYTES, 40_000), Amount(Unit.BOPS, 5e8), Amount(Unit.BITS, 3))
    assert str(budget) == "40 KB and 500 MBOPs and 3 bits"
    assert Budget.parse(str(budget)) == budget


def test_a_unit_is_limited_once() -> None:
    with pytest.raises(InputError, match=r"at least one unit, and each once, not \['bytes', 'bytes'\]"):
        Budget.parse("40 KB and 30 KB")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2.5",
        "bits",
        "-1 bits",
        "0 KB",
        "nan bits",
        "inf KB",
        "3 apples",
        "1.2.3 KB",
        "1e308 GB",
        "0 %",
        "%",
        "1 KB and",
    ],
)
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"such as '2.5 bits' on average, '12.5 %' of float32, '40 KB'"):
        Budget.parse(text)


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -1.0])
def test_a_budget_made_in_code_is_checked_too(amount: float) -> None:
    with pytest.raises(InputError, match="a budget is an amount"):
        Budget.of(Unit.BITS, amount)
    assert Amount("bits", 3.0).unit is Unit.BITS  # type: ignore[arg-type]


def test_uses_are_those_of_the_equations() -> None:
    w4a8 = Precision(4, 8)
    assert Amount.parse("2 bits").used_by(SIZES["a"], w4a8) == 400
    assert Amount.parse("1 KB").used_by(SIZES["a"], w4a8) == 50
    assert Amount.parse("1 GBOPs").used_by(SIZES["a"], w4a8) == 32_000
    assert Amount.parse("1 GBOPs").used_by(SIZES["b"], FULL) == 50 * 32 * 32


def test_average_bits_are_weighted_by_parameters() -> None:
    used = Budget.parse("2 bits").used_by({"a": Precision(8, 8), "b": Precision(2, 2)}, SIZES)
    assert used.amounts[0].number == pytest.approx((8 * 100 + 2 * 300) / 400)


def test_per_cent_are_of_the_weights_in_float32() -> None:
    budget = Budget.parse("12.5 %")
    assert budget.amounts[0].limit(SIZES) == 400 * 32 / 8
    four, two = Precision(4, 4), Precision(2, 2)
    assert budget.used_by({"a": four, "b": four}, SIZES) == budget
    assert budget.used_by({"a": FULL, "b": two}, SIZES).amounts[0].number == pytest.approx(100 * (3200 + 600) / 12800)


@given(st.floats(1e-3, 1e13), st.sampled_from(list(Unit)))
def test_what_is_printed_can_be_read_again(amount: float, unit: Unit) -> None:
    if unit is not Unit.BITS and amount < 1:
        amount = 1.0
    again = Amount.parse(str(Amount(unit, amount)))
    assert again.unit is unit
    assert again.number == pytest.approx(amount, rel=1e-3)


@given(st.floats(1e-3, 1e13), st.sampled_from(list(Unit)))
def test_a_budget_typed_as_it_is_shown_rounded_up_is_enough_and_little_more(amount: float, unit: Unit) -> None:
    if unit is not Unit.BITS and amount < 1:
        amount = 1.0
    typed = Amount.parse(str(Amount(unit, amount).rounded_up())).number
    assert amount * (1 - 1e-9) <= typed <= amount * (1 + 1.001e-3)
