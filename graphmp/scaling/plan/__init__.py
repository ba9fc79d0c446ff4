"""The plan of loss scaling for a graph, made before anything is changed."""
