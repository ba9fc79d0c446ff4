"""Batches for a training graph: which tensors bring data into it, and what to feed them.

`sources` finds where data comes from, `wanted` what is known of those tensors; `batches` makes batches from a file, from a function or at
random. For random ones `uses` follows each value to where it is read, `contents` says what must then be in it, `shapes` guesses
dimensions, `draw` draws, and `attempts` tries guesses until one runs.
"""
