"""Shapes of tensors, static and symbolic."""
