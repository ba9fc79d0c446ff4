"""Nodes and edges: views, order, loops, branches, calls, gradient code."""
