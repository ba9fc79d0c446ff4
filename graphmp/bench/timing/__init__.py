"""Which steps a bench times, in which order, and their statistics."""
