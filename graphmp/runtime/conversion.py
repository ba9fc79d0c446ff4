"""The result of a conversion, and the files that it is written to."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from graphmp.diff.compare import compare
from graphmp.diff.explain import explained
from graphmp.diff.model import Diff
from graphmp.graph.collector import collector_paused
from graphmp.graph.files import serialize, write_files
from graphmp.report.report import to_json

FILES = ("original.meta", "converted.meta", "report.json", "flags.txt", "diff.html")


@dataclass(frozen=True, repr=False)
class Conversion:
    """A converted graph with its report.

    Attributes:
        original: the MetaGraphDef before.
        meta_graph: the converted MetaGraphDef.
        report: a JSON value of schema `graphmp.report/1`.
        flags: lines of an absl flagfile that repeats the conversion.
        differences: the comparison of the two graphs, where it has been made already.
    """

    original: Any
    meta_graph: Any
    report: Dict[str, Any]
    flags: List[str] = field(default_factory=list)
    differences: Optional[Diff] = field(default=None, compare=False)

    def diff(self) -> Any:
        """The changes, each with its reason from the report."""
        return explained(self.differences or compare(self.original, self.meta_graph), self.report)

    @collector_paused()
    def files(self) -> Dict[str, bytes]:
        """Contents of the files that `save` writes, by name."""
        page = self.diff().to_html().encode("utf-8")  # first: what it is made from takes more memory than all files
        return {
            "original.meta": serialize(self.original),
            "converted.meta": serialize(self.meta_graph),
            "report.json": to_json(self.report).encode("utf-8"),
            "flags.txt": "".join(line + "\n" for line in self.flags).encode("utf-8"),
            "diff.html": page,
        }

    def save(self, folder: pathlib.Path) -> List[pathlib.Path]:
        """Writes all files into `folder`; each is complete or the old one.

        Raises:
            GraphmpError: GMP004 where the folder can't be written.
        """
        contents = self.files()
        write_files(folder, {name: contents[name] for name in FILES})
        return [folder / name for name in FILES]

    def stale_files(self, folder: pathlib.Path) -> List[str]:
        """The files of a folder that are missing or not what `save` would write; seconds in the report don't count."""
        return [name for name, data in self.files().items() if not _holds(folder / name, data)]

    def __repr__(self) -> str:
        half = "%(converted_ops)d of %(tensor_core_ops)d matmuls and convolutions in %(dtype)s"
        return "<graphmp.Conversion: %s>" % half % dict(self.report["coverage"], dtype=self.report["compute_dtype"])

    def _repr_html_(self) -> str:
        return str(self.diff()._repr_html_())


def _holds(path: pathlib.Path, data: bytes) -> bool:
    """Whether a file has these contents, the seconds of a report aside."""
    try:
        found = path.read_bytes()
    except OSError:
        return False
    return _without_seconds(found) == _without_seconds(data) if path.suffix == ".json" else found == data


def _without_seconds(data: bytes) -> Any:
    try:
        report = json.loads(data.decode("utf-8"))
    except ValueError:
        return None
    return {key: value for key, value in report.items() if key != "seconds"} if isinstance(report, dict) else None
