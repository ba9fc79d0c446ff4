"""Faults planted in converted graphs: their classes, the conversions, and comparisons of mutants.

subject       one conversion, and its facts that faults need
plant         a copy of its graph with a fault in it
classes       the registry of classes of faults
wiring, edges, constants, attributes, ops, added, casts, interface, functions
              faults anywhere in a graph
scaling, checking, gates, clipping, updating
              faults in nodes added by graphmp
several       several faults at once
held_out      classes kept out of the verifier's development
subjects      the conversions
equivalence   the rules by which a mutant computes the same
outcomes      verdicts and shares
expected      the known holes of a check
report        the printed report
executed      runs of both graphs, and their differences
"""
