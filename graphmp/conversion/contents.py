"""Names of the files of a conversion."""

from __future__ import annotations

ORIGINAL = "original.meta"
CONVERTED = "converted.meta"
REPORT = "report.json"
FLAGS = "flags.txt"
PAGE = "diff.html"
FILES = (ORIGINAL, CONVERTED, REPORT, FLAGS, PAGE)
