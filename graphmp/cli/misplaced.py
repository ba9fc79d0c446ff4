"""Flags of graphmp's among a script's arguments."""

from __future__ import annotations

import itertools
import pathlib
import re
from typing import Iterable, List, Sequence

from graphmp.errors import warning
from graphmp.files.reading import TEXT_LIMIT, read_beginning

_MOST_FILES = 200


def misplaced(script: str, arguments: Sequence[str], names: Iterable[str], where: str) -> List[str]:
    """Warnings GMP122, as text, for graphmp's flags among a script's arguments that it never names.

    Modules beside the script count too.

    Args:
        script: path of the Python file; empty for a module, whose file isn't searched.
        arguments: the script's own command line.
        names: graphmp's flags.
        where: where graphmp's flags belong, for the message.
    """
    known = set(names)
    found = [
        argument
        for argument in arguments
        if argument.startswith("--") and argument[2:].split("=")[0] in known
    ]
    words = _words(script) if found and script else set()
    text = "%s is handed to %s; graphmp's flags stand %s"
    rows = (
        warning("GMP122", "", text % (flag, script or "the module", where))
        for flag in found
        if flag[2:].split("=")[0] not in words
    )
    return ["warning %s: %s" % (row["code"], row["message"]) for row in rows]


def _words(script: str) -> set:
    """All words of a script and of the modules beside it."""
    path = pathlib.Path(script)
    beside = itertools.islice(path.parent.glob("*.py"), _MOST_FILES)
    return {
        word
        for file in {path, *beside}
        if file.is_file()
        for word in re.findall(r"\w+", read_beginning(file, TEXT_LIMIT).decode("utf-8", "ignore"))
    }
