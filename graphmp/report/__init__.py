"""The report of a conversion: what changed, why, and what did not. Schema `graphmp.report/1`."""
