"""Small made-up data for public scripts: functions that write a kind into a folder, by name."""

from __future__ import annotations

import inspect
import pathlib
from typing import Callable, Dict

from script_data import pictures, signals, tables, texts

KINDS: Dict[str, Callable[[pathlib.Path], None]] = {
    name: kind
    for room in (pictures, signals, tables, texts)
    for name, kind in inspect.getmembers(room, inspect.isfunction)
    if kind.__module__ == room.__name__ and not name.startswith("_")
}
