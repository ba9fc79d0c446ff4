"""Measurements inside a graph: which tensors, what of them, added up over steps."""
