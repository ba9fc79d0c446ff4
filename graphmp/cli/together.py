"""Options that say something only together with others."""

from __future__ import annotations

import argparse
from typing import Sequence

from graphmp.errors import GraphmpError


def refuse_idle(args: argparse.Namespace, names: Sequence[str], where: str) -> None:
    """Refuse options that were given where they have no effect.

    Args:
        args: from a parser of `graphmp.cli.parser`.
        names: the options.
        where: where they are accepted, for the message, such as "with --memory".

    Raises:
        GraphmpError: GMP002 for one that isn't at its default.
    """
    for name in names:
        if getattr(args, name) != args.default(name):
            raise GraphmpError("GMP002", "--%s: accepted only %s" % (name, where))
