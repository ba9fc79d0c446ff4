"""The forms of a diff, one module each."""
