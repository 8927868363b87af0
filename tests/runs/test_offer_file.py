"""What was measured for plans is read back as it was, for the same question about the same model only."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdqat.allocation.fitted import Trial
from pdqat.allocation.offer import Offer
from pdqat.allocation.prices import Price
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import Precision
from pdqat.runs.folder import Run
from pdqat.runs.offer_file import read_offer, write_offer

ASKED = {"rank": "dual", "bits": ["2", "w4a8"], "pin": {"a": "2"}, "exclude": [], "images": 20, "target": None}

amounts = st.floats(0, 1e9)
precisions = st.builds(Precision, st.none() | st.integers(1, 8), st.none() | st.integers(1, 8))
names = st.text(min_size=1, max_size=8)


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    layers = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    counted = draw(st.lists(st.sampled_from(layers), unique=True))
    changes = st.dictionaries(st.sampled_from(counted), precisions) if counted else st.just({})
    trials = st.lists(st.builds(Trial, changes, amounts), max_size=3)
    return Offer(
        draw(names),
        {it: Price(draw(amounts), draw(amounts), draw(amounts | st.just(math.inf))) for it in counted},
        {it: draw(st.dictionaries(precisions, amounts, min_size=1, max_size=3)) for it in counted},
        {it: LayerSize(draw(st.integers(1, 10**9)), draw(st.integers(0, 10**12))) for it in counted},
        {it: draw(precisions) for it in layers},
        [it for it in layers if it not in counted],
        alone=draw(trials),
        proposed=draw(trials),
    )


def run_in(folder: Path) -> Run:
    run = Run(folder)
    run.write_options({"model": "any"})
    run.best.write_bytes(b"weights")
    return run


@given(offered=offers())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_read(tmp_path: Path, offered: Offer) -> None:
    run = run_in(tmp_path)
    write_offer(run, offered, ASKED)
    assert read_offer(run, ASKED) == offered


OFFER = Offer(
    "dual", {"a": Price(1.0, 2.0)}, {"a": {Precision(2, 2): 0.5}}, {"a": LayerSize(3, 4)}, {"a": Precision(2, 2)}, []
)


@pytest.mark.parametrize(
    "other", [{"rank": "distance"}, {"bits": ["2"]}, {"pin": {}}, {"exclude": ["a"]}, {"images": 21}, {"target": "c"}]
)
def test_another_question_is_not_answered(tmp_path: Path, other: dict[str, object]) -> None:
    run = run_in(tmp_path)
    write_offer(run, OFFER, ASKED)
    assert read_offer(run, {**ASKED, **other}) is None


def test_another_model_is_not_answered_for(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    assert read_offer(run, ASKED) is None
    write_offer(run, OFFER, ASKED)
    run.best.write_bytes(b"trained further")
    assert read_offer(run, ASKED) is None


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    write_offer(run, OFFER, ASKED)
    run.offer_file.write_text(run.offer_file.read_text().replace("0.5", "0.4"))
    with pytest.raises(InputError, match="is damaged, or was edited"):
        read_offer(run, ASKED)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"costs": {"a": {"2": "cheap"}}}, "Expected `float`"),
        ({"costs": {"a": {"9": 0.5}}}, "bits must be from 1 to 8"),
        ({"before": {}}, "does not speak of the same layers"),
        ({"sizes": {}}, "does not speak of the same layers"),
        ({"branches": {"a": []}}, "it drops layers that it does not offer to drop"),
        ({"branches": {"elsewhere": ["a"]}}, "it drops layers that it does not offer to drop"),
        ({"alone": [{"changed": {"elsewhere": "2"}, "loss": 0.5}]}, "it changes layers that it does not offer"),
        ({"proposed": [{"changed": {"a": "9"}, "loss": 0.5}]}, "bits must be from 1 to 8"),
        ({"proposed": [{"changed": {"a": "2"}}]}, "missing required field `loss`"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    run = run_in(tmp_path)
    write_offer(run, OFFER, ASKED)
    run.write_offer({**json.loads(run.offer_file.read_text()), **change})
    with pytest.raises(InputError, match=rf"offer\.json is damaged: .*{sentence}"):
        read_offer(run, ASKED)
