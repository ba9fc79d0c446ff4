"""Loss scaling in a graph that is already built: find its gradient code, put scale, unscale, check, clip and skips into it."""
