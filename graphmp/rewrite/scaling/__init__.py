"""Loss scaling in a graph that is already built: find its gradient code, thread scale, unscale, check, clip and skip through it."""
