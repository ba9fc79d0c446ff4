"""Running an original and its conversion on the same batches, measured."""
