import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdqat import FULL, BitPlan, InputError, Precision
from pdqat.precision import DROPPED

bits = st.none() | st.integers(1, 8)
precisions = st.builds(Precision, bits, bits)
layer_names = st.text("abc012._", min_size=1, max_size=8)
plans = st.builds(
    BitPlan,
    st.text("aZ09_-", min_size=1, max_size=8),
    st.dictionaries(layer_names, precisions, max_size=5),
)


@given(precisions)
def test_text_and_precision_say_the_same(precision: Precision) -> None:
    assert Precision.parse(str(precision)) == precision
    assert Precision.parse(f"  {str(precision).upper()} ") == precision
    assert Precision.parse(precision) is precision


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("2", Precision(2, 2)),
        (8, Precision(8, 8)),
        ("w4a8", Precision(4, 8)),
        ("w4a4", Precision(4, 4)),
        ("w4", Precision(4, None)),
        ("a8", Precision(None, 8)),
        ("full", FULL),
    ],
)
def test_parse(text: str | int, precision: Precision) -> None:
    assert Precision.parse(text) == precision


@pytest.mark.parametrize(
    ("precision", "text"),
    [(Precision(4, 4), "4"), (Precision(1, 8), "w1a8"), (Precision(None, 3), "a3"), (FULL, "full")],
)
def test_text(precision: Precision, text: str) -> None:
    assert str(precision) == text


@pytest.mark.parametrize(
    "text", ["", "w", "a", "wa", "a8w4", "w4 a8", "4bit", "-2", "2.0", "w4a8x", "fp32", True, None]
)
def test_text_that_is_no_precision(text: str) -> None:
    with pytest.raises(InputError, match="a precision is a number of bits from 1 to 8"):
        Precision.parse(text)


@pytest.mark.parametrize("text", ["9", "32", "w0", "w9", "a0", "a32", "w0a4", "w9a4", "w4a0", "w4a32"])
def test_bits_are_from_1_to_8(text: str) -> None:
    with pytest.raises(InputError, match=r"bits must be from 1 to 8, not (0|9|32)"):
        Precision.parse(text)


def test_0_bits_are_of_a_layer_that_is_dropped() -> None:
    assert Precision.parse("0") == Precision.parse(0) == DROPPED
    assert str(DROPPED) == "0"
    assert DROPPED.is_dropped
    assert DROPPED.lowest_bits is None
    plan = BitPlan("mixed", {"a": DROPPED, "b": "4", "c": "full"})  # type: ignore[dict-item]
    assert plan.low_layers == ["b"]
    assert plan.dropped_layers == ["a"]
    assert plan.lowest_bits_in() == 4


@pytest.mark.parametrize("count", [True, 2.0, "2"])
def test_bits_are_whole_numbers(count: object) -> None:
    with pytest.raises(InputError, match="weight bits must be a whole number or None"):
        Precision(count, 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="activation bits must be a whole number or None"):
        Precision(2, count)  # type: ignore[arg-type]


@given(precisions)
def test_lowest_bits(precision: Precision) -> None:
    given_bits = [each for each in (precision.weight, precision.activation) if each is not None]
    assert precision.lowest_bits == (min(given_bits) if given_bits else None)


def test_precision_can_not_change() -> None:
    with pytest.raises(AttributeError):
        Precision(2, 2).weight = 3  # type: ignore[misc]


@pytest.mark.parametrize(("text", "name"), [("2", "2-bit"), (4, "4-bit"), ("w4a8", "w4a8"), ("w1", "w1"), ("a8", "a8")])
def test_uniform_plan_is_named_after_its_precision(text: str | int, name: str) -> None:
    plan = BitPlan.uniform(text, ["a", "b"])
    assert plan.name == name
    assert dict(plan.precisions) == {"a": Precision.parse(text), "b": Precision.parse(text)}


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a/b", "2-bit\n", "é"])
def test_plan_names_are_plain(name: str) -> None:
    with pytest.raises(InputError, match="letters, digits, '-' and '_'"):
        BitPlan(name, {})


def test_no_plan_is_called_full() -> None:
    with pytest.raises(InputError, match="can't be called 'full'"):
        BitPlan("full", {"a": Precision(2, 2)})
    with pytest.raises(InputError, match="can't be called 'full'"):
        BitPlan.uniform("full", ["a"])


def test_plan_reads_precisions_as_text() -> None:
    plan = BitPlan("mixed", {"a": "w2a4", "b": 8})  # type: ignore[dict-item]
    assert plan["a"] == Precision(2, 4)
    assert plan["b"] == Precision(8, 8)
    with pytest.raises(InputError, match="from 1 to 8"):
        BitPlan("mixed", {"a": 9})  # type: ignore[dict-item]


def test_layers_that_a_plan_does_not_name_are_full() -> None:
    assert BitPlan("mixed", {"a": Precision(2, 2)})["b"] == FULL


def test_low_layers_in_the_plans_order() -> None:
    plan = BitPlan("mixed", {"c": Precision(8, 8), "a": FULL, "b": Precision(None, 4)})
    assert plan.low_layers == ["c", "b"]


def test_lowest_bits_of_plan_and_block() -> None:
    plan = BitPlan("mixed", {"s.0.conv": Precision(4, 8), "s.1.conv": Precision(2, None), "s.10": FULL, "t": FULL})
    assert plan.lowest_bits_in() == 2
    assert plan.lowest_bits_in("s") == 2
    assert plan.lowest_bits_in("s.0") == 4
    assert plan.lowest_bits_in("s.1") == 2
    assert plan.lowest_bits_in("t") is None
    assert BitPlan("none", {}).lowest_bits_in() is None


@given(plans)
def test_plan_survives_copies_and_pickle(plan: BitPlan) -> None:
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert copy.deepcopy(plan) == plan
    assert copy.copy(plan) == plan
    assert list(pickle.loads(pickle.dumps(plan)).precisions) == list(plan.precisions)


def test_plan_is_deaf_to_changes_of_what_it_was_made_from() -> None:
    given_precisions = {"a": Precision(2, 2)}
    plan = BitPlan("mixed", given_precisions)
    given_precisions["a"] = FULL
    assert plan["a"] == Precision(2, 2)
    with pytest.raises(TypeError):
        plan.precisions["a"] = FULL  # type: ignore[index]


def test_plans_with_other_bits_differ() -> None:
    assert BitPlan.uniform(2, ["a"]) != BitPlan("2-bit", {"a": Precision(2, 4)})
    assert BitPlan.uniform(2, ["a"]) != BitPlan("other", {"a": Precision(2, 2)})
