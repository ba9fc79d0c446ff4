"""Conversion of files, programs and graphs.

Sources, captures in child processes, results, and the written files.
"""
