"""Questions about a graph before or after its conversion.

Overview, reasons of dtypes, bytes, shapes.
"""
