"""Names that count how often they are compared."""

from __future__ import annotations


class Compared(str):
    """A name; `count` is that of comparisons of any two."""

    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.count += 1
        return str.__eq__(self, other)
