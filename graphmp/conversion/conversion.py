"""The result of a conversion, and its files."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Dict, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.compare.api import Diff, compare
from graphmp.compare.explain import explained
from graphmp.conversion.contents import CONVERTED, FILES, FLAGS, ORIGINAL, PAGE, REPORT
from graphmp.conversion.stale import first_difference
from graphmp.errors import GraphmpError
from graphmp.files.folder import is_half_replaced, write_files
from graphmp.files.reading import read_bytes
from graphmp.graph.io.stored import Readable, stored
from graphmp.once import once
from graphmp.process_memory import collector_paused
from graphmp.report.facts import computed_in
from graphmp.report.report import as_json

# The largest stale file that is compared, beside the size of today's: a larger one is only named.
_MOST_TIMES, _MOST_MORE = 4, 1 << 20


class Conversion:
    """A converted graph with its report. Both graphs are stored as bytes and parsed on demand.

    Attributes:
        before: the graph before, stored.
        after: the converted graph, stored.
        report: a JSON value of schema `graphmp.report/1`.
        flags: lines of an absl flagfile that repeats the conversion.
    """

    def __init__(
        self,
        original: Readable,
        meta_graph: Readable,
        report: Dict[str, Any],
        flags: Sequence[str] = (),
        differences: Optional[Diff] = None,
    ):
        """Stores both graphs, and their comparison if it exists already."""
        self.before, self.after = stored(original), stored(meta_graph)
        self.report = report
        self.flags = list(flags)
        self._differences = differences

    @once
    def original(self) -> tf.MetaGraphDef:
        """The MetaGraphDef before. Changes to it don't affect what `save` writes."""
        return self.before.parsed()

    @once
    def meta_graph(self) -> tf.MetaGraphDef:
        """The converted MetaGraphDef. Changes to it don't affect what `save` writes."""
        return self.after.parsed()

    def diff(self) -> Any:
        """The changes, each with its reason from the report."""
        return self._explained

    @once
    def _explained(self) -> Diff:
        return explained(self._differences or compare(self.before, self.after), self.report)

    @collector_paused()
    def files(self) -> Dict[str, bytes]:
        """Contents of the files that `save` writes, by name.

        The same bytes for the same conversion: times are left out.
        """
        with self.after.held():  # of the original each node is read about once
            page = (
                self.diff().to_html().encode("utf-8")
            )  # first: what it is made from takes more memory than all files
        return {
            ORIGINAL: self.before.data,
            CONVERTED: self.after.data,
            REPORT: as_json(dict(self.report, seconds={})),
            FLAGS: "".join(line + "\n" for line in self.flags).encode("utf-8"),
            PAGE: page,
        }

    def save(self, folder: pathlib.Path) -> List[pathlib.Path]:
        """Write all files into `folder`, which then has all the new ones or all the old ones.

        Raises:
            GraphmpError: GMP004 if the folder can't be written.
        """
        contents = self.files()
        write_files(folder, {name: contents[name] for name in FILES})
        return [folder / name for name in FILES]

    def differences(self, folder: pathlib.Path) -> Dict[str, str]:
        """The first difference of each missing or stale file of a folder, by the file's name."""
        contents = self.files()
        found = {}
        for name in FILES:
            difference = _difference(folder / name, contents[name])
            if difference:
                found[name] = difference
        return found

    def __repr__(self) -> str:
        cover, dtype = self.report["coverage"], self.report["compute_dtype"]
        return "<graphmp.Conversion: %d of %d matmuls and convolutions in %s>" % (
            computed_in(dtype, cover),
            cover["tensor_core_ops"],
            dtype,
        )

    def _repr_html_(self) -> str:
        return str(self.diff()._repr_html_())


def _difference(path: pathlib.Path, expected: bytes) -> str:
    """The first difference between a file and the expected one; empty if there is none."""
    if not os.path.lexists(path):
        return "is missing"
    if is_half_replaced(path.parent):
        return "is of a set that was half replaced when a graphmp was killed"
    try:
        found = read_bytes(path, _MOST_TIMES * len(expected) + _MOST_MORE)
    except GraphmpError as error:
        return error.message
    return "" if found == expected else first_difference(path.name, found, expected)
