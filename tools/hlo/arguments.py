"""Values of options that export_hlo.py and time_hlo.py share."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A positive integer."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("%s: accepted are whole numbers from 1" % text)
    return number
