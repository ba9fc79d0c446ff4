"""The op policy: which ops may compute in half precision. Lists are data, one op a line."""
