"""Which runtimes can be held to their numbers on this processor."""

import os

import pytest
import torch


def openvino_is_sound() -> bool:
    """Not without AVX2: its kernels are then hardly used by anyone, and wrong.

    Limited so, OpenVINO 2026.4 reads unrounded numbers in an 8-bit convolution behind another, which verification
    refuses, crashes in groups of two channels, and gives wrong means, norms and interpolations of float32.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper()
    return limit not in ("SSE41", "AVX") and bool(torch.cpu._is_avx2_supported())


def skip_without_binary_kernels() -> None:
    """Limited below AVX2 on a processor that has more, OpenVINO can't make them: it mixes instructions of both."""
    if not openvino_is_sound():
        pytest.skip("OpenVINO has no binary kernels without AVX2")
