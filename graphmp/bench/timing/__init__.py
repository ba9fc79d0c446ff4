"""The steps that a bench times, their order, and their statistics."""
