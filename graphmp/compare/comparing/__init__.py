"""Parts of a comparison: bodies side by side, pairs of nodes, and their changes."""
