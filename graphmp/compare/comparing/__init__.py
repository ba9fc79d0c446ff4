"""Parts of a comparison: pairs of bodies, pairs of nodes, and their changes."""
