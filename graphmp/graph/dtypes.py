"""Numbers of the DataType enum that graphmp speaks of."""

from __future__ import annotations

INVALID, FLOAT32, FLOAT64, INT32, UINT8, INT8, STRING, INT64, BOOL = 0, 1, 2, 3, 4, 6, 7, 9, 10
BFLOAT16, FLOAT16, RESOURCE, VARIANT = 14, 19, 20, 21
HALF = (FLOAT16, BFLOAT16)
BY_NAME = {"float32": FLOAT32, "float16": FLOAT16, "bfloat16": BFLOAT16}
