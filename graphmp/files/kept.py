"""The file that keeps what a tuning measures, as a user names it."""

from __future__ import annotations

import pathlib
from typing import Sequence, Union

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.files.outputs import check_kept


def check_tune_file(
    flag: str, path: Union[str, pathlib.Path], config: Config, inputs: Sequence[str] = ()
) -> None:
    """Refuse a path that can't be written, or won't be, before anything runs.

    Args:
        flag: that names it.
        path: the file.
        config: the options beside it.
        inputs: paths of files that are read, besides those of the options.

    Raises:
        GraphmpError: GMP002, GMP004.
    """
    if path == "":
        raise GraphmpError("GMP002", "%s: it is empty; give a path, or True" % flag)
    if config.costs:
        text = "%s=%s: by costs that are given nothing is measured that it could keep; leave it out"
        raise GraphmpError("GMP002", text % (flag, path))
    check_kept(pathlib.Path(path), [*inputs, config.op_policy, config.ranges])
