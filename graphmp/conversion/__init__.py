"""Conversion of files, programs and graphs: sources, captures, results and written files.

Programs are captured in child processes.
"""
