"""Batches for a training graph: the tensors that take data, and values for them.

`sources` finds where data enters, `wanted` the facts about those tensors; `batches` makes batches
from a file, from a function or at random. For random ones `uses` follows each value to its
consumers, `contents` derives requirements, `shapes` guesses dimensions, `draw` draws, and
`attempts` tries guesses until one runs.
"""
