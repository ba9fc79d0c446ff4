"""Effects of half precision on a model's values: measured, explained, repaired."""
