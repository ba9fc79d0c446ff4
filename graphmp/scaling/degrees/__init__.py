"""The power of the loss scale in each value of gradient code."""
