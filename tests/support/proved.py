"""Conversions and what the proof says of them."""

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.verify import verify


def converted(original, **flags):
    """The graph that the rewrite makes of an original."""
    found = rewrite(original, Config.make(**flags), Policy.default("float16")).meta_graph
    return found.parsed() if hasattr(found, "parsed") else found


def open_claims(original, other, expected=None):
    """The claims about a conversion that failed or could not be proved, by name."""
    return {claim.name: claim.text for claim in verify(original, other, expected).claims if claim.verdict in ("failed", "not proved")}
