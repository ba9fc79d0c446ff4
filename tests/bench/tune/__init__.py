"""Tests of graphmp/bench/tune."""
