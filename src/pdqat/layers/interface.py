"""How a model is called with the inputs of a batch, and which tensor of what it returns is compared."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from pdqat.errors import InputError

OutputChoice = int | str | Callable[[Any], Tensor]
"""A position, a key, or a function of what the model returns."""
OBVIOUS = "logits"
"""The key of the scores in what classifiers and language models of other libraries return."""


@dataclass(frozen=True)
class Interface:
    """Of one model; `net(inputs...)` gives the tensor that is compared."""

    whole: bool = False
    """Whether inputs are the model's one argument whatever they are; else a tuple or list is its arguments one by one,
    and a mapping its arguments by name."""
    output: OutputChoice | None = None

    @classmethod
    def of(cls, model: nn.Module, example: Any, output: OutputChoice | None = None) -> "Interface":
        """By what the model's forward takes: one list, say, or as many arguments as the list has parts."""
        if isinstance(output, bool) or not (output is None or isinstance(output, int | str) or callable(output)):
            raise InputError(f"output= is a position, a key, or a function of what the model returns, not {output!r}")
        args, kwargs = cls().arguments(example)
        return cls(not _binds(model, args, kwargs), output)

    def arguments(self, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs of a batch as positional and keyword arguments."""
        if isinstance(inputs, Mapping) and not self.whole:
            return (), {str(name): part for name, part in inputs.items()}
        return (tuple(inputs) if isinstance(inputs, tuple | list) and not self.whole else (inputs,)), {}

    def compared(self, returned: Any) -> Tensor:
        """The tensor that is compared, of what the model returned."""
        if self.output is None:
            return returned if isinstance(returned, Tensor) else _obvious(returned)
        chosen = _chosen(returned, self.output)
        if not isinstance(chosen, Tensor):
            raise InputError(
                f"output={_shown(self.output)} gives a {type(chosen).__name__}, not a tensor; {_offer(returned)}"
            )
        return chosen


def named_tensors(returned: Any) -> dict[str | int, Tensor]:
    """The tensors at the top of what a model returns, by key or position."""
    if isinstance(returned, Tensor):
        return {0: returned}
    parts: Any = returned.items() if isinstance(returned, Mapping) else ()
    if isinstance(returned, tuple | list):
        parts = enumerate(returned)
    return {key: part for key, part in parts if isinstance(part, Tensor)}


def _binds(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _obvious(returned: Any) -> Tensor:
    """The scores, or the only tensor of real numbers."""
    tensors = named_tensors(returned)
    if OBVIOUS in tensors:
        return tensors[OBVIOUS]
    real = [tensor for tensor in tensors.values() if tensor.is_floating_point()]
    if len(real) != 1:
        raise InputError(f"the model returns a {type(returned).__name__}; {_offer(returned)}")
    return real[0]


def _chosen(returned: Any, output: OutputChoice) -> Any:
    if callable(output):
        return output(returned)
    if isinstance(returned, Tensor):
        raise InputError(f"output={output!r} chooses from several, but the model returns one tensor; leave it out")
    try:
        return returned[output]
    except (KeyError, IndexError, TypeError):
        raise InputError(
            f"the model returns no {_shown(output)}, but a {type(returned).__name__}; {_offer(returned)}"
        ) from None


def _shown(output: OutputChoice) -> str:
    return getattr(output, "__name__", "a function") if callable(output) else repr(output)


def _offer(returned: Any) -> str:
    names = ", ".join(repr(name) for name in named_tensors(returned))
    if not names:
        return "there is no tensor in it: choose one by output=, a function of it"
    return f"choose the tensor to compare by output=, one of {names}, or a function"
