"""Names that NumPy, SciPy and gym dropped since TensorFlow 1."""
