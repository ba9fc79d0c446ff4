"""The processes that run graphs for a bench, and what they measure.

`processes` starts what `child` is, `timed_session` is a graph that trains there, `feeds` its batches, `pipeline` the wait for its own
input. `memory` is that of the process, `accumulation` what half-precision products add up in.
"""
