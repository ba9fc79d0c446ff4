"""Graphs changed and built."""
