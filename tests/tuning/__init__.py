"""Tests of graphmp/tuning."""
