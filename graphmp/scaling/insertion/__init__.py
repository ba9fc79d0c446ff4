"""Inserting the nodes of a loss scale into a graph."""
