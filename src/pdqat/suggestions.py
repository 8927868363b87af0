"""What a person probably meant by a word that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches

ALIKE = 0.65
"""Below this likeness, from 0 to 1, a suggestion would be a guess: a learning_rate is no flip_rate."""


def closest(given: object, known: Iterable[str]) -> str | None:
    """The known word that is most like the given one; None if none is.

    >>> closest("--epoch", ["--epochs", "--seed"])
    '--epochs'
    """
    return next(iter(get_close_matches(str(given), list(known), n=1, cutoff=ALIKE)), None)


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """As a remark inside a sentence, or nothing.

    >>> "method must be one of full, ste" + did_you_mean("stee", ["full", "ste"])
    'method must be one of full, ste (did you mean ste?)'
    """
    word = closest(given, known)
    return "" if word is None else f" (did you mean {word}?)"
