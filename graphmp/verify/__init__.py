"""Proofs that a converted graph computes what its original does. Nothing here knows how conversions are made."""

from graphmp.verify.proof import Claim, Proof
from graphmp.verify.prove import verify

__all__ = ["Claim", "Proof", "verify"]
