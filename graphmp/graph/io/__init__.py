"""Graphs in files and as bytes."""
