"""Hostile inputs for tools/fuzz.py: one module a family, and the forks that they run in."""
