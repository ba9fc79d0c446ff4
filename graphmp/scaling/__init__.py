"""Loss scaling in a graph that is already built.

Find its gradient code; insert scale, unscale, finite check, clip and skips.
"""
