"""The range guard: what half precision has too small a range, or too few digits, for."""
