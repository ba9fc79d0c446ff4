"""Conversion of the graph of a running session, and sessions that run graphs as they are."""
