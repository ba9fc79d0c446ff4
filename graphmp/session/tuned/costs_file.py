"""The file in which a tuning keeps what it measured, for the next run.

It is `graphmp.costs` beside the script's checkpoints, unless another path is given: in the folder
of the last checkpoint that was saved or restored before it is needed. It holds one graph: the first
of a process that writes it or is decided by it. If others replaced that, the next run would find
another graph's measurements each time that it looks for one's.
"""

from __future__ import annotations

import os
import pathlib
from typing import Dict, Optional

from graphmp.errors import GraphmpError
from graphmp.files.single import write_atomic
from graphmp.tuning import files
from graphmp.tuning.costs import Costs
from graphmp.tuning.machine import matches_this_machine

_NAME = "graphmp.costs"
_HOLDERS: Dict[str, CostsFile] = {}  # by path


class CostsFile:
    """A file of costs.

    Attributes:
        path: its path; empty as long as it isn't known.
        placement: the graph's, as the file holds it; empty if it doesn't.
    """

    def __init__(self, path: str = ""):
        """Args: path: the file; empty for one beside the checkpoints."""
        self.path = os.path.abspath(path) if path else ""
        self.placement = ""
        self._is_given = bool(path)

    def beside(self, checkpoint: str) -> None:
        """A checkpoint of this prefix was saved or restored."""
        if not self._is_given and "://" not in checkpoint:
            self.path = os.path.join(os.path.dirname(os.path.abspath(checkpoint)), _NAME)

    def read(self, compute_dtype: str) -> Optional[Costs]:
        """The costs of an earlier run; None if there is no file yet.

        Raises:
            GraphmpError: GMP027 if they are of another machine or half precision, GMP002 or GMP003
                if the file holds no costs.
        """
        if not self.path or not os.path.exists(self.path):
            return None
        costs = files.read(self.path, "%s: not used" % self.path)
        differs = matches_this_machine(costs.machine) or (
            "compute_dtype %s, here %s" % (costs.compute_dtype, compute_dtype)
            if costs.compute_dtype != compute_dtype
            else ""
        )
        if differs:
            raise GraphmpError(
                "GMP027", "%s: not used, measured elsewhere (%s)" % (self.path, differs)
            )
        return costs

    def holds(self, placement: str) -> bool:
        """Whether the file is, or is from now on, for a graph of this placement."""
        holder = _HOLDERS.setdefault(self.path, self)
        if holder is not self and holder.placement != placement:
            return False
        self.placement = placement
        return True

    def write(self, costs: Costs) -> None:
        """Replace the file.

        Raises:
            GraphmpError: GMP004 if it can't be written.
        """
        write_atomic(pathlib.Path(self.path), files.dumps(costs))
