"""What changed between two graphs, node by node, and why."""
