"""How a factor of an op's inputs appears in its outputs: `homogeneity.txt`, read once."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from graphmp.policy import tables

_SPELLED = re.compile(r"(?P<op>\w+)(:(?P<slots>[\d,]+))?(>(?P<outputs>[\d,]+))?$")
_JOINT = {
    "linear": 1.0,
    "reduce": 1.0,
    "square": 2.0,
    "root": 0.5,
    "inverse": -1.0,
    "inverse_root": -0.5,
}
_BY_PLACE = {"quotient": (1.0, -1.0), "solution": (-1.0, 1.0)}


class Term(NamedTuple):
    """A power of one factor that all the given input slots share."""

    power: float
    slots: Sequence[int]


class Rule(NamedTuple):
    """The rule of one op.

    Attributes:
        name: the rule's name; empty for an unknown op.
        slots: the inputs it concerns; None for all that can carry a factor.
        outputs: the outputs it concerns; None for all.
    """

    name: str
    slots: Optional[Tuple[int, ...]] = None
    outputs: Optional[Tuple[int, ...]] = None

    def terms(self, slots: Sequence[int]) -> List[Term]:
        """The terms of the result's factor, for the given inputs of the rule.

        Empty if it is no product.
        """
        if self.name in _JOINT:
            return [Term(_JOINT[self.name], slots)]
        if self.name == "product":
            return [Term(1.0, (slot,)) for slot in slots]
        return [Term(power, (slot,)) for power, slot in zip(_BY_PLACE.get(self.name, ()), slots)]


def rule(op: str) -> Rule:
    """The rule of an op."""
    return _RULES.get(op, _UNKNOWN)


def _numbers(text: Optional[str]) -> Optional[Tuple[int, ...]]:
    return None if text is None else tuple(int(number) for number in text.split(","))


def _read(file: str) -> Dict[str, Rule]:
    found = {}
    for name, *words in tables.rows(file):
        for word in words:
            match = _SPELLED.match(word)
            assert match is not None, word
            found[match.group("op")] = Rule(
                name, _numbers(match.group("slots")), _numbers(match.group("outputs"))
            )
    return found


_UNKNOWN = Rule("")
_RULES = _read("homogeneity.txt")
