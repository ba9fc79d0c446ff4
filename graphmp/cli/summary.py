"""A conversion in a few lines of text: its diff's summary, its warnings, and what to do next."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any, Dict, Iterator, List

from graphmp.environment import FAST_BATCH_NORM
from graphmp.wording import labelled, more, plural

if TYPE_CHECKING:
    from graphmp.compare.api import Diff


def summary(diff: Diff, written: List[pathlib.Path], next_command: str) -> Iterator[str]:
    """Lines for a terminal: source, coverage, path of the scale, clip, and what to do next."""
    from graphmp.compare.review.words import rows

    assert (
        diff.summary is not None and diff.report is not None
    )  # a conversion has both graphs and a report
    yield from (labelled(*row) for row in rows(diff.summary))
    if diff.summary.reported and not diff.summary.reported.tensorflow.startswith("1."):
        yield from _on_a_gpu(dict(diff.summary.coverage.half_ops).get("FusedBatchNormGradV3", 0))
    yield from _warnings(diff.report["warnings"])
    yield labelled("wrote", "  ".join(map(str, written)))
    yield labelled("next", next_command)


def _on_a_gpu(batch_norms: int) -> Iterator[str]:
    """The variable with which batch normalization in half precision trains faster on a GPU.

    PyPI's TensorFlow 1.15.5 doesn't know it.
    """
    if batch_norms:
        said = "%s=1, as graphmp run sets it: no transposes around %s" % (
            FAST_BATCH_NORM,
            plural(batch_norms, "batch normalization"),
        )
        yield labelled("on a GPU", said)


def _warnings(warnings: List[Dict[str, Any]]) -> Iterator[str]:
    for code in sorted({warning["code"] for warning in warnings}):
        alike = [warning for warning in warnings if warning["code"] == code]
        also = more(len(alike) - 1)
        said = " ".join(filter(None, (code, alike[0]["node"], alike[0]["message"])))
        yield labelled("warning", said + (" (%s in report.json)" % also if also else ""))
