"""Converting a graph beside itself, while its session continues, by clones of nodes."""
