"""`graphmp explain`: what an error or warning code means."""

from __future__ import annotations

import argparse
import json
import sys

from graphmp.errors import CODES, GraphmpError

HELP = "say what an error or warning code means and what cures it"
EXAMPLE = "  graphmp explain GMP012"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the code, and the form to print it in."""
    parser.add_argument("code", metavar="CODE", help="such as GMP012")
    parser.add_argument("--json", action="store_true", help="print it for machines")


def run(args: argparse.Namespace) -> int:
    """Prints a row of the table of codes."""
    code = CODES.get(args.code.upper())
    if code is None:
        raise GraphmpError("GMP002", "explain %s: no such code; accepted are %s to %s" % (args.code, min(CODES), max(CODES)))
    if args.json:
        sys.stdout.write(json.dumps(dict(code._asdict(), code=args.code.upper()), sort_keys=True) + "\n")
        return 0
    kind = "warning" if code.exit_status == 0 else "error, exit status %d" % code.exit_status
    print("%s (%s)\n  %s\n  cure: %s" % (args.code.upper(), kind, code.meaning, code.cure))
    return 0
