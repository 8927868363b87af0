"""Calls: the tensors that go into a model and come out of it, each with a name."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pdqat.batches import each_tensor, samples_in
from pdqat.deployment.integer.names import INPUT, OUTPUT
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.interface import named_tensors


def inputs_of(net: Network, given: Any) -> Any:
    """A batch's inputs as files read them and as the network is called with them.

    They are a tensor, or a tuple or dictionary of tensors, all of as many samples. Real numbers become float32, whole
    ones int64.
    """
    inputs = tuple(given) if isinstance(given, list) else given
    parts, example = tensors_of(inputs), net.preparation.example
    stranger = next((part for part in parts if not isinstance(part, Tensor) or part.dim() == 0), None)
    if stranger is not None or not parts:
        what = "a single number" if isinstance(stranger, Tensor) else f"a {type(stranger or inputs).__name__}"
        raise InputError(f"a file reads tensors of samples, not {what}")
    if isinstance(inputs, Mapping) is not isinstance(example, Mapping):
        names = "by name" if isinstance(example, Mapping) else "without names"
        raise InputError(f"the network was prepared with inputs {names}; it can't read a {type(given).__name__}")
    if len({len(part) for part in parts}) > 1:
        counts = ", ".join(str(len(part)) for part in parts)
        raise InputError(f"the inputs of a file must have as many samples each, not {counts}")
    return each_tensor(inputs, as_read)


def as_read(tensor: Tensor) -> Tensor:
    """In float32, in whole numbers of 64 bits, or as true and false, on the CPU."""
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


def input_names(net: Network, inputs: Any) -> list[str]:
    """What the model calls the tensors that it is given."""
    if isinstance(inputs, Mapping):
        return [str(name) for name in inputs]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [name for name, given in inspect.signature(net.model.forward).parameters.items() if given.kind in kinds]
    args, _ = net.preparation.interface.arguments(inputs)
    count = len(tensors_of(inputs))
    if len(args) == count and len(own) >= count:
        return own[:count]
    return [f"{INPUT}_{place}" for place in range(count)]


def outputs_of(net: Network, inputs: Any) -> dict[str, Tensor]:
    """What the network makes under its current view, by the names of a file's outputs.

    They are the tensors at the top of what the model returns: the one that is compared is `output`, others have their
    keys or are `output_1`, ... What is no tensor, such as a cache, is not among them.
    """
    interface = net.preparation.interface
    args, kwargs = interface.arguments(inputs)
    returned = net.model(*args, **kwargs)
    compared = interface.compared(returned)
    others = {
        key if isinstance(key, str) and key != OUTPUT else f"{OUTPUT}_{key}": part
        for key, part in named_tensors(returned).items()
        if part.dim() and part is not compared
    }
    return {OUTPUT: compared, **others}
