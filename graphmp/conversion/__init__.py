"""Conversion of files, programs and graphs: sources, captures in child processes, results and the files they are written to."""
