"""Modules of the programs in the folder above, those that no other folder holds."""
