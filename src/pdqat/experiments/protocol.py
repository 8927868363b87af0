"""Protocol: how long and how wide the cells of a suite are trained."""

from dataclasses import dataclass
from typing import Any

from pdqat.config.presets import PRESETS


@dataclass(frozen=True)
class Protocol:
    """The options that all cells of a suite share, under a name."""

    name: str
    options: dict[str, Any]
    seeds: int
    """How many, unless told otherwise."""
    about: str

    @property
    def data(self) -> str:
        """The name of the data set that its cells are trained on."""
        return str(self.options.get("data", PRESETS["paper"]["data"]))
