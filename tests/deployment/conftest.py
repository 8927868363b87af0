import pytest

from pdqat.deployment import runtimes
from sound_runtimes import openvino_is_sound


@pytest.fixture
def sound_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtimes that can be held to their numbers."""
    if not openvino_is_sound():
        monkeypatch.setattr(runtimes, "installed", lambda: [runtimes.ONNX_RUNTIME])
