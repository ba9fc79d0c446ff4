"""The losses of a training graph, and the gradient code of each."""
