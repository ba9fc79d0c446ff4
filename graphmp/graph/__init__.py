"""Graphs as data: files, and a view of nodes by name with ports, type attributes and traversal."""
