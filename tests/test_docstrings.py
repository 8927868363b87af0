"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import pdqat


def modules_with_examples() -> list[str]:
    names = [module.name for module in pkgutil.walk_packages(pdqat.__path__, "pdqat.")]
    return [name for name in names if ">>> " in source_of(name)]


def source_of(name: str) -> str:
    path = Path(pdqat.__path__[0]).joinpath(*name.split(".")[1:])
    module = path.with_suffix(".py")  # a folder of the same name may hold its data
    return (module if module.exists() else path / "__init__.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_give_what_they_show(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0
