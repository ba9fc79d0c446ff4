"""The processes that run graphs for a bench, and their measurements.

`processes` starts `child`; there `timed_session` is a graph that trains, `feeds` its batches,
`pipeline` the wait for its own input, `memory` the process's memory, `accumulation` the dtype in
which half-precision products are added up.
"""
