"""Proofs that a converted graph computes the same as its original, independent of converters."""

from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim, Proof
from graphmp.verify.prove import verify

__all__ = ["FAILED", "NOT_APPLICABLE", "NOT_PROVED", "PROVED", "Claim", "Proof", "verify"]
