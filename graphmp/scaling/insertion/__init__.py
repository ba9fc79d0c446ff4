"""The nodes of a loss scale, put into a graph."""
