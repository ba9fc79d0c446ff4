"""Sessions that train a graph for audit, bench, the full check and memory measurements."""
