"""Times a training graph, its conversion and TensorFlow's own rewrite of it, in processes of their own.

`graphs` makes the three; `run` is the bench: it has each one fit into memory alone, then times them in turn. `processes` starts what
`child` is, `timed_session` is a graph that trains there, `feeds` its batches, `pipeline` the wait for its own input, `device` what it runs on.
`grappler` is TensorFlow's pass, `tensor_cores` looks at the kernels of one step.
"""
