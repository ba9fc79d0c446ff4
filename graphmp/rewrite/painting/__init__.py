"""Painting: which units are half, float32 or free, by the op lists and what forces a dtype."""
