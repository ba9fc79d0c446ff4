"""Changes between two graphs, node by node, with reasons."""
