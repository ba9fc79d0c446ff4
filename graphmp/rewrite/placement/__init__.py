"""Placing the casts: a minimum cut over bytes, or over measured times."""
