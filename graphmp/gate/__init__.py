"""The gate: one validation of every graph that comes from outside, once, before other rooms.

Other rooms rely on it: unique names, inputs and slots that exist, known dtypes, attributes of the
declared kinds, text that is UTF-8, tensors of the right length, functions without recursion.
"""
