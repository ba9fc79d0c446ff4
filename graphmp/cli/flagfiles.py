"""`--flagfile=FILE` on a command line, replaced by the file's lines where it stands."""

from __future__ import annotations

import os
from typing import Iterator, List, Sequence, Tuple

from graphmp.errors import GraphmpError
from graphmp.files.reading import read_text

FLAG = "--flagfile"
_MOST_ARGUMENTS = 10_000
_COMMENTS = ("#", "//")


def expanded(arguments: Sequence[str]) -> List[str]:
    """The arguments, with the lines of flagfiles in place of the flags that name them.

    A line is one argument. Empty lines and comments don't count. A file may name others.

    Raises:
        GraphmpError: GMP001 for a flag without a file, a file that names itself, and too many
            lines; GMP003 for a file that can't be read.
    """
    found: List[str] = []
    for argument in _expanded(list(arguments), ()):
        found.append(argument)
        if len(found) > _MOST_ARGUMENTS:
            raise GraphmpError(
                "GMP001",
                "%s: more than %s lines; accepted are at most that many"
                % (FLAG, format(_MOST_ARGUMENTS, ",")),
            )
    return found


def _expanded(arguments: List[str], inside: Tuple[str, ...]) -> Iterator[str]:
    rest = iter(arguments)
    for argument in rest:
        name, equals, path = argument.partition("=")
        if name.lstrip("-") != FLAG[2:] or not name.startswith("-"):
            yield argument
            continue
        path = path if equals else next(rest, "")
        if not path:
            raise GraphmpError("GMP001", "%s: names no file; accepted is %s=FILE" % (FLAG, FLAG))
        path = os.path.expanduser(path)
        if path in inside:
            raise GraphmpError("GMP001", "%s=%s: the file names itself" % (FLAG, path))
        yield from _expanded(_lines(path), (*inside, path))


def _lines(path: str) -> List[str]:
    label = "%s=%s" % (FLAG, path)
    text = read_text(path, label)
    if "\0" in text:
        raise GraphmpError("GMP003", "%s: cannot be read: it is no text" % label)
    lines = [line.strip() for line in text.split("\n")]
    return [line for line in lines if line and not line.startswith(_COMMENTS)]
