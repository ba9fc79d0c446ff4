"""Where a step spends its time, by TensorFlow's trace, and its kernels on Tensor Cores.

`shares` sums up the time; `tensor_cores` traces a step, `profile` finds the kernels of each node,
`names` recognises those on Tensor Cores, `products` finds their matmuls and convolutions.
"""
