"""What half precision does to a model's values: measured, explained, repaired."""
