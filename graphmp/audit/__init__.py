"""Effects of half precision on a model's values: measured, explained, repaired.

`run` is the audit: `pair` puts original and converted graph into one and steps it, `measure` measures tensors in it. `audit` is the
result, `agreement` and `advice` what follows from it, `repair` the nodes that have to stay float32.
"""
