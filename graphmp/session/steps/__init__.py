"""Sessions that train a graph for the audit, the bench, the full check and measurements of memory."""
