"""How export_hlo.py gets from a graph file to serialised HLO: the step, resource variables, the lowering, what the file says of itself."""
