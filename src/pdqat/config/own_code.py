"""Own code by its import path: `--model mypackage.nets:build`, `--data mypackage.data:load`.

A function may take any option that concerns it by name, such as `def load(batch_size, seed)`. The current folder is
importable. A run folder remembers the paths, but a folder alone never runs code: they have to be named again.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdqat.errors import InputError
from pdqat.suggestions import did_you_mean

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_own(name: object) -> bool:
    """Whether a name of a model or data set is an import path; in a file it may be no text at all."""
    return isinstance(name, str) and ":" in name


def named_or_own(names: Sequence[str]) -> Callable[[str], str | None]:
    """A check of an option: one of a few words, or an import path."""

    def check(value: str) -> str | None:
        if value in names or _PATH.fullmatch(value):
            return None
        meant = did_you_mean(value, names)
        return f"must be one of {', '.join(names)}, or an import path such as mypackage.module:function{meant}"

    return check


def check_named_again(option: str, remembered: str, given: str | None, folder: Path) -> None:
    """Refuse to import what only a run folder names."""
    if given is not None and given != remembered:
        raise InputError(f"the run {folder} was trained with {option} {remembered}, not {given}")
    if is_own(remembered) and given is None:
        raise InputError(
            f"the run {folder} was trained with own code, and a run folder alone may not run code: name it again with "
            f"--{option} {remembered}"
        )


def check_named_on_the_command_line(option: str, in_file: str | None, given: str | None, file: Path) -> None:
    """Refuse to import what only a configuration file names: it may be a stranger's."""
    if in_file is not None and is_own(in_file) and given is None:
        raise InputError(
            f"{file} names own code, and a file alone may not run code: name it again with --{option} {in_file}"
        )


def call_own(path: str, options: Mapping[str, Any]) -> Any:
    """Import a function and call it with those of the options that it takes by name."""
    function = _imported(path)
    taken = _parameters(path, function)
    unknown = [
        name
        for name, parameter in taken.items()
        if name not in options and parameter.default is inspect.Parameter.empty and parameter.kind not in _MANY
    ]
    if unknown:
        raise InputError(
            f"{path} needs {unknown[0]!r}, which is no option that it can be given; it may take {', '.join(options)}"
        )
    arguments = {name: value for name, value in options.items() if _takes(taken, name)}
    try:
        return function(**arguments)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # own code may raise anything
        raise InputError(f"{path} failed with {type(error).__name__}: {error}") from error


def takes(path: str, name: str) -> bool:
    """Whether a function of own code takes an option."""
    return _takes(_parameters(path, _imported(path)), name)


def _takes(taken: Mapping[str, inspect.Parameter], name: str) -> bool:
    return name in taken or any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())


def _parameters(path: str, function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} can't be called: {error}") from error


_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _imported(path: str) -> Callable[..., Any]:
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # own code may raise anything
        reason = str(error) or type(error).__name__
        raise InputError(f"{path}: the module {module_name} can't be imported from {here}: {reason}") from error
    attribute: Any = module
    for part in name.split("."):
        if not hasattr(attribute, part):
            raise InputError(f"{path}: the module {module_name} has no {name}")
        attribute = getattr(attribute, part)
    if not callable(attribute):
        raise InputError(f"{path} is a {type(attribute).__name__}; it must be a function or a class")
    function: Callable[..., Any] = attribute
    return function
