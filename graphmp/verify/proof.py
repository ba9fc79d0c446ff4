"""The result of a verification: claims, each proved or not, with the nodes concerned."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

PROVED, FAILED, NOT_PROVED, NOT_APPLICABLE = "proved", "failed", "not proved", "not applicable"


class Claim(NamedTuple):
    """One claim about a conversion.

    Attributes:
        name: what is claimed, in a word or two.
        verdict: one of PROVED, FAILED, NOT_PROVED, NOT_APPLICABLE.
        text: what was proved, or what a reviewer must look at, in one line.
        nodes: nodes of the converted graph that break the claim, or where it holds, those that it is about; `library/function/node` in a function.
    """

    name: str
    verdict: str
    text: str
    nodes: Tuple[str, ...] = ()


class Proof(NamedTuple):
    """The claims about one conversion.

    Attributes:
        claims: all of them.
        parameters: what was read off the converted graph.
        is_broken: whether a graph is none that TensorFlow would load: it was looked at no further, and must not be run.
    """

    claims: Tuple[Claim, ...]
    parameters: Dict[str, Any]
    is_broken: bool = False

    @property
    def ok(self) -> bool:
        """Whether no claim failed or was left unproved."""
        return all(claim.verdict in (PROVED, NOT_APPLICABLE) for claim in self.claims)
