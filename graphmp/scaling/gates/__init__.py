"""Gates: what keeps a skipped step from writing."""
