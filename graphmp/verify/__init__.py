"""Proofs that a converted graph computes what its original does. Nothing here knows how conversions are made."""

from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim, Proof
from graphmp.verify.prove import verify

__all__ = ["FAILED", "NOT_APPLICABLE", "NOT_PROVED", "PROVED", "Claim", "Proof", "verify"]
