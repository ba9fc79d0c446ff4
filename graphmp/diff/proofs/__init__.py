"""Proofs of what a conversion keeps: of the two graphs, and along the way of the loss scale."""
