import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdqat.errors import InputError
from pdqat.rules import check_all_match, resolve


def test_exact_name_wins_over_patterns() -> None:
    assert resolve({"*": 1, "stages.*": 2, "stages.0": 3}, "stages.0", 4) == 3


def test_first_matching_pattern_wins() -> None:
    assert resolve({"stages.*": 2, "*": 1}, "stages.0", 4) == 2
    assert resolve({"*": 1, "stages.*": 2}, "stages.0", 4) == 1


def test_default_for_the_rest() -> None:
    assert resolve({"stages.*": 2}, "head", 4) == 4
    assert resolve({}, "head", 4) == 4


def test_patterns_know_case_and_sets() -> None:
    assert resolve({"Conv*": 1}, "conv0", 0) == 0
    assert resolve({"conv[01]": 1}, "conv1", 0) == 1
    assert resolve({"conv?": 1}, "conv10", 0) == 0


@given(st.dictionaries(st.text("ab.*", max_size=4), st.integers()), st.text("ab.", max_size=4))
def test_a_rule_for_the_very_name_is_the_answer(rules: dict[str, int], name: str) -> None:
    assert resolve({**rules, name: 7}, name, 0) == 7


def test_every_rule_must_speak_of_something() -> None:
    check_all_match(["conv*", "head"], ["conv0", "head"], "the rule")
    with pytest.raises(InputError, match=r"the rule 'cnov\*' matches no layer; the layers are conv0, head"):
        check_all_match(["conv*", "cnov*"], ["conv0", "head"], "the rule")
    with pytest.raises(InputError, match="the layers are none"):
        check_all_match(["conv*"], [], "the rule")


def test_a_name_that_looks_like_a_pattern_matches_itself() -> None:
    check_all_match(["conv[0]"], ["conv[0]"], "the rule")
    assert resolve({"conv[0]": 1}, "conv[0]", 0) == 1
