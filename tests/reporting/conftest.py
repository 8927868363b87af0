"""One training for all tests of the report."""

import pytest

from pdqat.reporting.subject import Subject
from pdqat.training.history import History
from reported import subject, trained


@pytest.fixture(scope="session")
def history() -> History:
    return trained()


@pytest.fixture(scope="session")
def reported(history: History) -> Subject:
    return subject(history)
