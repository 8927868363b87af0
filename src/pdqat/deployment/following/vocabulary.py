"""Vocabulary: whether a file can hold all that a graph calls."""

from torch import fx

from pdqat.errors import InputError


def is_written(module: fx.GraphModule) -> bool:
    """Whether ONNX files can hold a graph's functions, as far as their names tell; without onnx, nobody asks."""
    try:
        from pdqat.deployment.formats.onnx_functions import unknown_calls
    except InputError:
        return True
    try:
        return not unknown_calls(module)
    except InputError:  # a module of torch's can't be followed into its functions
        return False
