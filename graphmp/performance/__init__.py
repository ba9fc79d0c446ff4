"""Where the time and the memory of a step go."""
