"""What is said of an exception that has reached the edge of the program."""

import os
import tempfile
import traceback

from pdqat.errors import InputError

BAD_INPUT = 2
INTERNAL = 70
"""As sysexits.h calls an error inside the program."""
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "Unable to allocate")
"""What torch and numpy say, in exceptions of many kinds."""
_TOO_LARGE = ("storage size calculation overflowed", "numel: integer multiplication overflow")
"""What torch says of tensors that no machine could hold."""


def explain(error: Exception) -> tuple[str, int]:
    """A sentence for a person, and the exit code."""
    if isinstance(error, InputError):
        return " ".join(str(error).split()), BAD_INPUT
    if isinstance(error, OSError):
        return str(error), BAD_INPUT
    if isinstance(error, MemoryError) or any(words in str(error) for words in (*_OUT_OF_MEMORY, *_TOO_LARGE)):
        return "there is not enough memory for this; a smaller network, image or batch needs less", BAD_INPUT
    if isinstance(error, RecursionError):
        return "what was given is nested too deeply to be read", BAD_INPUT
    if isinstance(error, OverflowError) or "without overflow" in str(error):
        return "a number that was given is too large to compute with", BAD_INPUT
    what = f"{type(error).__name__}: {_first_line(error)}"
    return f"this is a mistake in pdqat ({what}); please report it, {_saved(error)}", INTERNAL


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "without a message")


def _saved(error: Exception) -> str:
    try:
        number, name = tempfile.mkstemp(prefix="pdqat-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError as failure:
        return f"the details could not be saved ({failure})"
    return f"with the details in {name}"
