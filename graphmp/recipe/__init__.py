"""The recipe: mixed precision while the graph is being built.

Inputs are cast, variables are stored in float32 and cast on read, everything after the last matmul
or convolution is float32, the loss is scaled and the gradients are unscaled.
"""
