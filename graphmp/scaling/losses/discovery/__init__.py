"""Gradient code found by what it computes, because its names don't tell.

Names were changed, or the call wasn't named by TensorFlow.

1. Gradients start from ones, or else from fed or constant values (`seeds.py`). Their dependants are
   multiples of them: no constant is added, and no two are multiplied (`multiples.py`,
   `policy/homogeneity.txt`). Ones of the forward pass lead to such a product or sum, or only to
   part of what true seeds lead to, singly or together.
2. In a graph with matmuls and convolutions, gradient code contains a matmul or convolution that
   shares an input, a weight or an activation, with one of the forward pass
   (`backward_products.py`). The two contract different dimensions of it: `x @ w` is differentiated
   by `g @ w^T`. Without any, gradient code multiplies by a function of the variable that it is
   written to; in a graph with matmuls, written by an update kernel.
3. It ends behind the last op that needs the forward pass: scaling, clipping and averaging of
   gradients don't belong to it (`extent.py`).
4. Nodes computed only for it belong to it: factors and shapes.
"""
