"""Converting a graph beside itself, while its session goes on: what to clone, cloning it, and fetching clones."""
