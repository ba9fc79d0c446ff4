"""Execution: which nodes run, when, and on which device."""
