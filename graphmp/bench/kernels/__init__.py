"""Where a step spends its time, by TensorFlow's trace of it, and which of its kernels ran on Tensor Cores.

`shares` sums up the time; `tensor_cores` traces a step, `profile` finds the kernels of each node, `names` tells those on Tensor Cores,
`products` says which matmuls and convolutions they computed.
"""
