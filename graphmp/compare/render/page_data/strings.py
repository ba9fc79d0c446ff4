"""Distinct texts, each stored once and denoted by an index."""

from __future__ import annotations

from typing import Dict, List, Optional

from graphmp.wording import printable

ABSENT = -1


class Strings(Dict[str, int]):
    """The index of each text. Texts are stored as shown: control characters are escaped."""

    def __init__(self) -> None:
        self.texts: List[str] = []
        self[""] = 0  # the empty text is 0, so that JavaScript can test `if (text)`
        self.texts.append("")

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self.texts)
        self.texts.append(printable(text))
        return number

    def optional(self, text: Optional[str]) -> int:
        """The index, or ABSENT for None."""
        return ABSENT if text is None else self[text]
