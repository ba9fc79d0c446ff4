"""Names and behaviour that Python and other libraries than TensorFlow have dropped since."""
