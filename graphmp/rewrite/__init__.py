"""The rewrite: a graph that is already built, painted float16 or float32 node by node, with casts where the colours meet."""
