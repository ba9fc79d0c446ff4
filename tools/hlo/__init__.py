"""Modules of export_hlo.py and time_hlo.py: lowering to HLO, and programs that JAX runs."""
