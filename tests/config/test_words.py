"""The words that options take are those of the registries."""

from pdqat import data, models
from pdqat.config import words
from pdqat.config.presets import PRESETS
from pdqat.constraints import OutputDistance
from pdqat.deployment.formats import FORMATS
from pdqat.dual_rules import DUAL_RULES
from pdqat.layers import Distance, Gradient
from pdqat.objective import Objective
from pdqat.paper.protocols import PROTOCOLS
from pdqat.paper.suites import SUITES
from pdqat.quantizers import SCHEMES
from pdqat.sensitivity import RANKINGS, SAMPLES
from pdqat.trackers import TRACKERS
from pdqat.training.settings import Schedule


def test_they_are_the_names_in_the_registries() -> None:
    assert words.DATA == data.NAMES
    assert words.MODELS == models.NAMES
    assert tuple(SCHEMES) == words.QUANTIZERS
    assert tuple(Gradient) == words.GRADIENTS
    assert tuple(Objective) == words.OBJECTIVES
    assert tuple(OutputDistance) == words.OUTPUT_DISTANCES
    assert tuple(Distance) == words.LAYER_DISTANCES
    assert tuple(DUAL_RULES) == words.DUAL_RULES
    assert tuple(Schedule) == words.SCHEDULES
    assert tuple(PRESETS) == words.PRESETS
    assert tuple(TRACKERS) == words.TRACKERS
    assert tuple(RANKINGS) == words.RANKINGS
    assert tuple(SUITES) == words.SUITES
    assert set(words.OWN_PROTOCOLS) < set(SUITES)
    assert {words.USUAL_PROTOCOL, *words.OWN_PROTOCOLS.values()} <= set(PROTOCOLS)


def test_what_is_said_of_them_is_the_same() -> None:
    assert {name: form.about for name, form in FORMATS.items()} == words.FORMATS
    assert {name: protocol.about for name, protocol in PROTOCOLS.items()} == words.PROTOCOLS
    assert words.JUDGES == SAMPLES
