"""The one exception for bad input."""


class InputError(ValueError):
    """What was given can't be used.

    The message is one sentence for a person: what was given, what is allowed and where. The command line prints it
    without a traceback and exits with code 2.
    """


class LostProcessError(Exception):
    """Another process of the same training is gone: nothing is wrong with the input, and the training can go on."""
