"""The places where graphmp listens in on TensorFlow: op creation, gradients, optimizers, sessions.

Each module installs one wrapper, once in a process; what the wrapper does is up to whoever installs it.
"""
