import os

import pytest
import torch

from pdqat.deployment import runtimes


@pytest.fixture
def sound_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtimes that can be held to 8-bit codes and to grouped convolutions: without AVX2 not OpenVINO.

    With its kernels limited so OpenVINO 2026.4 reads unrounded numbers in an 8-bit convolution behind another, which
    verification refuses, and crashes in groups of two channels.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper()
    if limit in ("SSE41", "AVX") or not torch.cpu._is_avx2_supported():
        monkeypatch.setattr(runtimes, "installed", lambda: [runtimes.ONNX_RUNTIME])
