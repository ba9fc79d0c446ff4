"""Reports of conversions, for the commands that read them."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Dict, Optional

from graphmp.conversion.contents import REPORT
from graphmp.files import schemas
from graphmp.files.folder import refuse_half_replaced
from graphmp.files.json_file import read_json


def read_report(path: str, flag: str = "") -> Dict[str, Any]:
    """A report.

    Args:
        path: the file.
        flag: the flag that names it, for messages.

    Raises:
        GraphmpError: GMP003 if it can't be read, GMP002 if it isn't a report.
    """
    refuse_half_replaced(pathlib.Path(path))
    return read_json(path, schemas.REPORT, "the report.json of a conversion", flag + path)


def report_beside(graph: str) -> Optional[Dict[str, Any]]:
    """The report beside a converted graph; None if there is none.

    Raises:
        GraphmpError: as `read_report`.
    """
    path = os.path.join(os.path.dirname(graph), REPORT)
    return read_report(path) if os.path.lexists(path) else None
