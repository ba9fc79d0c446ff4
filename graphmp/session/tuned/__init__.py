"""Tuning while a script trains: its first steps in float32 and in half precision, by turns."""
