"""Calls: the tensors that go into a model and come out of it, each with a name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.batches import each_tensor, samples_in
from pdqat.deployment.integer.graph import OUTPUT
from pdqat.errors import InputError

INPUT = "input"
"""What a file calls its only input."""


def on_cpu(inputs: Any) -> Any:
    """Inputs of a network as files read them: a tensor, or a tuple or dictionary of them, all of as many samples.

    Real numbers are float32, whole ones int64.
    """
    if isinstance(inputs, tuple | list):
        inputs = tuple(inputs) if len(inputs) != 1 else inputs[0]
    parts = tensors_of(inputs)
    stranger = next((part for part in parts if not isinstance(part, Tensor) or part.dim() == 0), None)
    if stranger is not None or not parts:
        given = "a single number" if isinstance(stranger, Tensor) else f"a {type(stranger or inputs).__name__}"
        raise InputError(f"a file reads tensors of samples, not {given}")
    if len({len(part) for part in parts}) > 1:
        counts = ", ".join(str(len(part)) for part in parts)
        raise InputError(f"the inputs of a file must have as many samples each, not {counts}")
    return each_tensor(inputs, _plain)


def _plain(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().cpu().contiguous()
    if tensor.is_floating_point():
        return tensor.float()
    return tensor if tensor.dtype is torch.bool else tensor.long()


def tensors_of(inputs: Any) -> list[Tensor]:
    """The tensors of inputs, in order."""
    if isinstance(inputs, Mapping):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, tuple) else [inputs]


def like(inputs: Any, tensors: Sequence[Tensor]) -> Any:
    """Other tensors in the place of the inputs' own."""
    if isinstance(inputs, Mapping):
        return dict(zip(inputs, tensors, strict=True))
    return tuple(tensors) if isinstance(inputs, tuple) else tensors[0]


def of_two_or_more(inputs: Any) -> Any:
    """The inputs, those of one sample twice: of one alone torch takes the number of samples for a constant."""
    return each_tensor(inputs, lambda part: part.repeat_interleave(2, 0)) if samples_in(inputs) == 1 else inputs


def input_names(model: nn.Module, inputs: Any) -> list[str]:
    """What the model calls the tensors that it is given."""
    if isinstance(inputs, Mapping):
        return [str(name) for name in inputs]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [name for name, given in inspect.signature(model.forward).parameters.items() if given.kind in kinds]
    count = len(tensors_of(inputs))
    return own[:count] if len(own) >= count else [f"{INPUT}_{index}" for index in range(count)]


def named_outputs(made: Any, choose: Callable[[Any], Tensor]) -> dict[str, Tensor]:
    """The tensors at the top of what a model returns: the chosen one as `output`, others by key or as `output_1`, ...

    What is no tensor, such as a cache, is not among them.
    """
    chosen = choose(made)
    parts = made.items() if isinstance(made, Mapping) else enumerate(made) if isinstance(made, tuple | list) else ()
    others = {
        key if isinstance(key, str) and key != OUTPUT else f"{OUTPUT}_{key}": part
        for key, part in parts
        if isinstance(part, Tensor) and part.dim() and part is not chosen
    }
    return {OUTPUT: chosen, **others}


def first_tensor(made: Any) -> Tensor:
    """What a model returns, or the first tensor in it."""
    parts = made.values() if isinstance(made, Mapping) else made if isinstance(made, tuple | list) else [made]
    found = next((part for part in parts if isinstance(part, Tensor)), None)
    if found is None:
        raise InputError(f"the model returns a {type(made).__name__} without a tensor: it can't be exported")
    return found
