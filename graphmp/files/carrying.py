"""The files of others in an output folder, when a new folder takes its place."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
from typing import Container, Iterator, Tuple

MOST = 1000  # entries that are linked into the new folder


class NotLinked(Exception):
    """The entries of a folder can't be had in a second folder too."""


def linked(old: pathlib.Path, new: pathlib.Path, own: Container[str]) -> None:
    """Put hard links to the entries of `old`, but for those named in `own`, into `new`.

    Folders inside are made anew, with links to their files.

    Raises:
        NotLinked: there are too many, or the file system or a mount doesn't allow it.
    """
    for number, (path, place) in enumerate(_entries(old, new, own)):
        if number >= MOST:
            raise NotLinked
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                if os.path.ismount(path):
                    raise NotLinked
                os.mkdir(place)
                shutil.copystat(path, place)
            else:
                os.link(path, place, follow_symlinks=False)
        except (OSError, NotImplementedError) as error:
            raise NotLinked from error


def _entries(
    old: pathlib.Path, new: pathlib.Path, own: Container[str] = ()
) -> Iterator[Tuple[pathlib.Path, pathlib.Path]]:
    """All entries of a folder, folders before what is in them, each with its place in another."""
    for name in sorted(os.listdir(old)):
        if name not in own:
            yield old / name, new / name
            if stat.S_ISDIR(os.lstat(old / name).st_mode):
                yield from _entries(old / name, new / name)


def rescued(old: pathlib.Path, new: pathlib.Path, own: Container[str], wins: bool) -> None:
    """Move what is only in `old` into `new`.

    Args:
        old: a folder that is about to be removed.
        new: the folder that has taken its place.
        own: names that are not looked at.
        wins: whether an entry that is another file in `new` is moved too: what somebody wrote
            between the linking and the exchange.
    """
    for name in sorted(os.listdir(old)):
        path, place = old / name, new / name
        if name in own:
            continue
        if not os.path.lexists(place):
            os.rename(path, place)
            continue
        one, other = os.lstat(path), os.lstat(place)
        if stat.S_ISDIR(one.st_mode) and stat.S_ISDIR(other.st_mode):
            rescued(path, place, (), wins)
        elif wins and not os.path.samestat(one, other):
            os.replace(path, place)
