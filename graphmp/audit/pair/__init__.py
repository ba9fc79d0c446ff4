"""Original and converted graph in one, which step side by side."""
