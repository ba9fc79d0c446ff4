"""The rewrite: painting a built graph float16 or float32 node by node, with casts in between."""
