"""Training steps run and measured, for audit, bench, tuning and the full check."""
