"""Original and converted graph in one, stepped together."""
