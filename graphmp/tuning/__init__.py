"""Measured times of operations: a costs file, and what it tells of a graph's nodes.

`costs` is the data, `files` its JSON, `signatures` tells which operations are alike, `assemble`
makes costs of traces, `prediction` answers for any node, `machine` is where they were measured.
"""
