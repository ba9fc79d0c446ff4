"""The recipe: mixed precision while the graph is being built.

Inputs are cast, variables are stored in float32 and cast on read, everything past the last matmul or convolution is
float32, the loss is scaled and the gradients unscaled.
"""
