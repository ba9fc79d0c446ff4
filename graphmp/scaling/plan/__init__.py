"""What loss scaling does to a graph, decided before anything is changed."""
