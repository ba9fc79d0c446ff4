"""Loss scaling: none, fixed, dynamic, as fragments of graph.

Order, always: gradients, float32, unscale, finite check, clip, apply or skip.
"""
