"""Types: where half precision is valid, allowed and wrong."""
