"""State that goes on across a conversion: Savers, loss scales, random numbers."""
