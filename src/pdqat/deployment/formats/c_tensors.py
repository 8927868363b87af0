"""Tensors of a C program: what they hold, how it is stored, and where in the arena."""

from dataclasses import dataclass

from pdqat.deployment.formats.c_text import structure

WORD_BYTES, WORD = 4, 32
REAL, PLANES, BYTES, INT16, INT32 = "real", "planes", "bytes", "int16", "int32"
"""How numbers are stored."""
LINES = "lines"
"""How what a row of windows sees of planes is stored: a channel is a line of each plane; behind them stand sums."""


@dataclass(frozen=True)
class Stored:
    """Numbers of height x width pixels with some channels; a vector is one pixel."""

    name: str
    """In C."""
    channels: int
    height: int
    width: int
    kind: str
    low: int = 0
    high: int = 0
    """Of whole numbers."""
    outside: str = ""
    """The argument of model_run that it is; such tensors have their channels first."""

    @property
    def pixels(self) -> int:
        """How many there are."""
        return self.height * self.width

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.pixels * self.channels

    @property
    def planes(self) -> int:
        """Bit planes; the highest one of signed codes counts negative."""
        return bits_of(self.low, self.high) if self.kind in (PLANES, LINES) else 0

    @property
    def words(self) -> int:
        """That it takes in the arena."""
        if self.outside:
            return 0
        if self.kind == PLANES:
            return self.pixels * self.planes * -(-self.channels // WORD)
        if self.kind == LINES:
            return self.pixels * (self.planes * self.channels + 1)
        size = {REAL: 4, INT32: 4, INT16: 2, BYTES: 1}[self.kind]
        return -(-self.size * size // WORD_BYTES)

    def read(self, row: str) -> str:
        """The call in C that reads a pixel."""
        return f"read_{self.kind}(&{self.name}, pixel, {row});"

    def add_to(self, row: str) -> list[str]:
        """The calls in C that add a pixel to a row."""
        if self.kind == BYTES:
            return [f"add_bytes(&{self.name}, pixel, {row});"]
        return [self.read("arena.other"), f"add_row({row}, arena.other, {self.channels});"]

    def write(self, row: str, pixel: str = "pixel") -> str:
        """The call in C that writes a pixel."""
        return f"write_{self.kind}(&{self.name}, {pixel}, {row});"

    def definition(self, offset: int) -> str:
        """In C."""
        channels_first = bool(self.outside)
        fields = {
            "data": 0 if self.outside else f"arena.tensors + {offset}",
            "outside": f"&{self.outside}_data" if self.outside else 0,
            "height": self.height,
            "width": self.width,
            "channels": self.channels,
            "pixel_step": 1 if channels_first else self.channels,
            "channel_step": self.pixels if channels_first else 1,
            "planes": self.planes,
            "is_signed": int(self.low < 0),
        }
        return structure("tensor", self.name, fields)


def bits_of(low: int, high: int) -> int:
    """Of whole numbers from low to high, in two's complement if there are negative ones.

    >>> bits_of(0, 3), bits_of(-1, 1), bits_of(-128, 127)
    (2, 2, 8)
    """
    return max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0, 0 if low < 0 else 1) + (low < 0)


def kind_of(low: int, high: int) -> str:
    """The smallest storage that holds whole numbers, other than planes."""
    if (low >= 0 and high <= 255) or (low >= -128 and high <= 127):
        return BYTES
    return INT16 if low >= -(1 << 15) and high < 1 << 15 else INT32
