"""Clones: converted copies of nodes, put into the live graph beside the nodes themselves."""
