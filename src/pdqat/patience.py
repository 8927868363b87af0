"""A time limit for what strangers' files make a library do, which nothing inside this process could interrupt."""

import threading
from collections.abc import Callable
from typing import TypeVar

from pdqat.errors import InputError

Result = TypeVar("Result")
SECONDS = 600.0
"""Networks that were exported here are loaded in seconds."""


def within(call: Callable[[], Result], what: str, seconds: float | None = None) -> Result:
    """What a call returns or raises, unless it takes longer than `seconds` (SECONDS, if not given).

    The call goes on in a thread of its own until the process ends: libraries offer no way to stop it.
    """
    limit = SECONDS if seconds is None else seconds
    returned: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    if raised:
        raise raised[0]
    if not returned:
        raise InputError(f"{what} takes longer than {limit:g} seconds")
    return returned[0]
