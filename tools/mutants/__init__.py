"""Faults that are planted in converted graphs: classes of them, conversions to plant them in, and what tells a mutant from the unmutated graph.

subject       one conversion, and what faults ask about it
plant         a copy of its graph with a fault in it
classes       the registry of classes of faults
wiring, edges, constants, attributes, ops, added, casts, interface, functions    faults anywhere in a graph
scaling, checking, gates, clipping, updating                                     faults of what graphmp puts in
several       several faults at once
held_out      classes kept out of the verifier's development
subjects      the conversions
equivalence   the rules by which a mutant computes the same
outcomes      verdicts and shares
expected      the holes that a check is known to have
report        what is printed
executed      both graphs run, and what differs
"""
