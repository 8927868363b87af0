"""What reaches a person's terminal: text, and nothing that a terminal would obey.

Names of files, folders, layers and operators may come from strangers. Everything that is printed goes through
`printable`: here for plain lines, in `pdqat.terminal` for tables.
"""

import contextlib
import json
import os
import sys
import unicodedata
from pathlib import Path
from typing import Any, TextIO

OBEYED = {"Cc", "Cs", "Zl", "Zp"}
"""Categories of characters that move the cursor, change the terminal or can't be encoded."""
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Those that let text read otherwise than it is."""


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""With everything but visible characters, spaces and ends of lines written out, in what an encoding can say.

    >>> printable("layer\x1b[2J")
    'layer\\x1b[2J'
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    written_out = "".join(
        character.encode("unicode_escape").decode() if _is_obeyed(character) else character for character in text
    )
    return written_out.encode(encoding, "backslashreplace").decode(encoding)


def _is_obeyed(character: str) -> bool:
    if character in "\n\t":
        return False
    return unicodedata.category(character) in OBEYED or character in DIRECTIONS


def say(text: str, end: str = "\n") -> None:
    """Print text to the standard output."""
    _write(sys.stdout, text + end)


def say_as_json(content: Any) -> None:
    """Print what programs read: control characters in its texts are escaped as JSON does it."""
    say(json.dumps(content, indent=2).replace("\x7f", "\\u007f"))


def complain(text: str) -> None:
    """Print a line of pdqat's to the standard error; where nobody can read it, that is no further error."""
    with contextlib.suppress(OSError):
        _write(sys.stderr, f"{_speaker()}: {text}\n")


def _speaker() -> str:
    """Who says something: of several processes, which one."""
    several = os.environ.get("WORLD_SIZE", "1") != "1" and "RANK" in os.environ
    return f"pdqat in process {os.environ['RANK']}" if several else "pdqat"


def flush_output() -> None:
    """Hand over what was printed, or raise what stands in the way, while somebody can still be told."""
    if sys.stdout is not None:
        sys.stdout.flush()


def give_up_output() -> None:
    """Let what could not be handed over go, or the interpreter would complain about it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:  # as it is where the caller has closed it
        stream.write(printable(text, stream.encoding or "utf-8"))
        stream.flush()
