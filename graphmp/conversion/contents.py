"""Names of the files of a conversion."""

from __future__ import annotations

ORIGINAL = "original.meta"
FILES = (ORIGINAL, "converted.meta", "report.json", "flags.txt", "diff.html")
