"""A bench as text and as a picture."""
