"""Timing a training graph, its conversion and TensorFlow's own rewrite, in processes of their own.

`graphs` makes the three, `grappler` the one by TensorFlow's pass; `run` is the bench: it measures
whether each fits into memory alone, then times them in turns. `bench` is the result, `causes`
explains it, `device` is the machine.
"""
