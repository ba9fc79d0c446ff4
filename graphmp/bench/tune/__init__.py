"""Tuning: the operations of a training step, timed in float32 and in half precision.

`measure` traces steps of both in turns and makes costs of them, `compare` times whole steps of what
comes of them, `tune` calls both.
"""
