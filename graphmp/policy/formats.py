"""Half-precision formats: which float32 values overflow, vanish or lose digits in them."""

from __future__ import annotations

from typing import NamedTuple

EXPONENT_BIAS = 127  # of float32
EXPONENTS = 256  # exponent fields of float32
MANTISSA_BITS = 23  # of float32


class Format(NamedTuple):
    """A half-precision format.

    Attributes:
        name: "float16" or "bfloat16".
        largest: its largest number.
        smallest: its smallest positive number, a subnormal one.
        top: exponent of its largest power of two.
        normal: exponent of its smallest normal number.
        bottom: exponent of its smallest positive number.
        overflows: bits of the smallest positive float32 that rounds to infinity.
        vanishes: bits of the largest positive float32 that rounds to zero.
    """

    name: str
    largest: float
    smallest: float
    top: int
    normal: int
    bottom: int
    overflows: int
    vanishes: int

    @property
    def powers(self) -> int:
        """How many powers of two it holds: 40 for float16."""
        return self.top - self.bottom + 1


FLOAT16 = Format("float16", 65504.0, 2.0**-24, 15, -14, -24, 0x477FF000, 0x33000000)
BFLOAT16 = Format(
    "bfloat16", 3.3895313892515355e38, 2.0**-133, 127, -126, -133, 0x7F7F8000, 0x00008000
)
FORMATS = {"float16": FLOAT16, "bfloat16": BFLOAT16}
