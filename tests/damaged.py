"""Files as chance damages them, and structures with entries of other kinds: what readers refuse in one sentence."""

import contextlib
import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdqat.errors import InputError

FEW, MANY = 200, 10_000
"""Inputs for a reader in the fast suite and in the slow one."""
WORDS = (
    *(b"", b"\0", b"\xff", b"\n", b"{", b"}", b"[", b"]", b'"', b"'", b"=", b",", b":", b".", b"-", b"#", b"\\u0000"),
    *(b"null", b"true", b"NaN", b"Infinity", b"1e999", b"-1", b"0", b"0x" + b"f" * 4000, b"9" * 5000, b"1979-05-27"),
    *(b"[" * 2000, b'{"a":' * 2000, b"a." * 2000, b'""', b"[]", b"{}", b"'a\x1b[31m'", "\u202eé".encode()),
)


@dataclass(frozen=True)
class Reader:
    """What reads a file, and whole files for it."""

    read: Callable[[bytes], Any]
    samples: Sequence[bytes]
    words: Sequence[bytes] = WORDS
    samples_are_read: bool = True

    @classmethod
    def of_file(cls, path: Path, read: Callable[[Path], Any], sample: bytes) -> Self:
        """Of what reads the file at a path."""

        def of_bytes(content: bytes) -> None:
            path.write_bytes(content)
            read(path)

        return cls(of_bytes, [sample])

    def refuses_or_reads(self, examples: int) -> None:
        """Give it damaged files: whatever it raises but an InputError is a failure."""

        @_settings(examples)
        @given(st.one_of(st.binary(max_size=60), damaged(self.samples, self.words)))
        def fuzz(content: bytes) -> None:
            _only_refuses(self.read, content)

        for sample in self.samples if self.samples_are_read else ():
            self.read(sample)
        fuzz()


@st.composite
def damaged(draw: st.DrawFn, samples: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of the samples with up to four changes: bits flipped, parts lost, doubled, or replaced by a word."""
    content = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("cut", "flip", "lose", "double", "replace", "insert")))
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.integers(1, 40)))
        if kind == "cut":
            content = content[:at]
        elif kind == "flip" and at < len(content):
            content = content[:at] + bytes([content[at] ^ (1 << draw(st.integers(0, 7)))]) + content[at + 1 :]
        elif kind == "lose":
            content = content[:at] + content[end:]
        elif kind == "double":
            content = content[:end] + content[at:]
        else:
            word = draw(st.sampled_from(words))
            content = content[:at] + word + content[end if kind == "replace" else at :]
    return content


def retyped_or_read(read: Callable[[Any], Any], sample: dict[str, Any], examples: int) -> None:
    """Give a reader of structures ones with entries of other kinds, lost entries and odd keys."""

    @_settings(examples)
    @given(st.randoms(use_true_random=False), st.integers(1, 3))
    def fuzz(chance: random.Random, changes: int) -> None:
        content = copy.deepcopy(sample)
        for _ in range(changes):
            _retype(content, chance)
        _only_refuses(read, content)

    read(copy.deepcopy(sample))
    fuzz()


ODD: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 0.5, float("nan"), float("inf"), "", "text", "\0", [], {}, [1, "a"], {"a": 1}, {1: 2}),
    *(torch.ones(0), torch.ones(3), torch.tensor(1.0), torch.tensor(float("nan")), torch.ones(2, 2, dtype=torch.int64)),
    *(torch.ones(2, dtype=torch.complex64), torch.tensor([True]), b"bytes", (1, 2)),
)


def _retype(content: dict[Any, Any], chance: random.Random) -> None:
    """Change one entry somewhere in a structure."""
    place: Any = content
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
            place = inner
            continue
        break
    kind = chance.choice(("replace", "replace", "lose", "key"))
    if kind == "replace" or isinstance(place, list):
        place[key] = copy.deepcopy(chance.choice(ODD))  # later changes may go into it
    elif kind == "lose":
        del place[key]
    else:
        place[chance.choice(("other", 3, "", None, 2.5))] = place.pop(key)


def _only_refuses(read: Callable[[Any], Any], content: Any) -> None:
    with contextlib.suppress(InputError):
        read(content)


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
