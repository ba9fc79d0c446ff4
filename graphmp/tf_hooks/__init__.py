"""The places where graphmp intercepts TensorFlow: op creation, gradients, optimizers, sessions.

Each module installs a given wrapper, once in a process.
"""
