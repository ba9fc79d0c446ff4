"""What a comparison is made of: bodies side by side, which node is which, what changed at a node, and what is no node."""
