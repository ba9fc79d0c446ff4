"""Folders of the checkout, and the environment of a process that imports graphmp from it."""

from __future__ import annotations

import os
import pathlib
from typing import Dict

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
TOOLS = ROOT / "tools"
TESTS = ROOT / "tests"
DATA = TESTS / "data"


def environment() -> Dict[str, str]:
    """This process's environment, with graphmp importable from any folder and without warnings."""
    return dict(os.environ, PYTHONPATH=str(ROOT), PYTHONWARNINGS="ignore")
