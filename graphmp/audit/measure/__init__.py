"""Measurements inside a graph: the tensors, their statistics, and sums over steps."""
