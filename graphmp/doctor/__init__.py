"""Diagnosis of an installation: packages, devices, and their limits."""
