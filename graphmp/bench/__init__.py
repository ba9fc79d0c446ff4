"""Times a training graph, its conversion and TensorFlow's own rewrite of it, in processes of their own.

`graphs` makes the three, `grappler` that of TensorFlow's pass; `run` is the bench: it has each one fit into memory alone, then times them
in turn. `bench` is the result, `causes` explains it, `device` is what it ran on.
"""
