"""The loss scales: what is scaled, unscaled, checked and clipped."""
