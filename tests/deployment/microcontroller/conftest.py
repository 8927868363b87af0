"""The tools of the emulated core: a test without them fails, unless it is told to be skipped."""

import os

import pytest

from pdqat.deployment.microcontroller.toolchain import missing

SKIP = "PDQAT_WITHOUT_ARM"


@pytest.fixture
def arm_core() -> None:
    reason = missing()
    if reason is not None and os.environ.get(SKIP):
        pytest.skip(f"{reason} ({SKIP} is set)")
    if reason is not None:
        pytest.fail(f"{reason}; or set {SKIP}=1 to leave these tests out")
