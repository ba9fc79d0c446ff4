"""Effects of half precision on a model's values: measured, explained, repaired.

`run` is the audit: `pair` combines original and converted graph and steps the result, `measure`
measures tensors in it. `audit` is the result, `agreement` and `advice` draw conclusions, `repair`
finds nodes that must stay float32.
"""
