"""The result of a verification: claims with verdicts and nodes."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

PROVED, FAILED, NOT_PROVED, NOT_APPLICABLE = "proved", "failed", "not proved", "not applicable"


class Claim(NamedTuple):
    """One claim about a conversion.

    Attributes:
        name: the claim, in a word or two.
        verdict: one of PROVED, FAILED, NOT_PROVED, NOT_APPLICABLE.
        text: what was proved, or what a reviewer must look at, in one line.
        nodes: nodes of the converted graph that violate the claim, or to which a proved claim
            applies; `library/function/node` in a function.
    """

    name: str
    verdict: str
    text: str
    nodes: Tuple[str, ...] = ()


class Proof(NamedTuple):
    """The claims about one conversion.

    Attributes:
        claims: all of them.
        parameters: those read off the converted graph.
        is_broken: whether TensorFlow could not load one of the graphs: it wasn't examined further,
            and must not be run.
    """

    claims: Tuple[Claim, ...]
    parameters: Dict[str, Any]
    is_broken: bool = False

    @property
    def ok(self) -> bool:
        """Whether no claim failed or remained unproved."""
        return all(claim.verdict in (PROVED, NOT_APPLICABLE) for claim in self.claims)
