"""Modules of export_hlo.py: the step, resource variables, lowering to HLO, and the sidecar."""
