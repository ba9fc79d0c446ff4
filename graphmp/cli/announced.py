"""Lines of `graphmp run` about a conversion."""

from __future__ import annotations

import collections
from typing import Any, Dict, Iterator, List

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.report import facts
from graphmp.report.coverage import some_in_float32
from graphmp.session.live.live_conversion import LiveConversion


def announced(found: LiveConversion, config: Config, first: bool) -> Iterator[str]:
    """The size of a conversion, and why the first matmul that stays float32 does.

    For the `first` of a process also whether float16 is slow here.
    """
    assert found.original is not None and found.meta_graph is not None  # kept for a report
    before, after = found.original.graph_def, found.meta_graph.graph_def
    cover = facts.coverage(after)
    text = "converted %s nodes in %.1f s: %d of %d matmuls and convolutions in %s, %d casts; %s"
    yield text % (
        format(len(before.node), ","),
        found.seconds,
        facts.computed_in(config.compute_dtype, cover),
        cover["tensor_core_ops"],
        config.compute_dtype,
        facts.casts(after) - facts.casts(before),
        "loss scale " + scales_in_words(found.record.scales),
    )
    left = some_in_float32(after, config, found.record) if cover["converted_ops"] else []
    for row in left[:1]:
        others = " (and %d more; --report=DIR lists all)" % (len(left) - 1) if len(left) > 1 else ""
        yield "warning %s: %s: %s%s" % (row["code"], row["node"], row["message"], others)
    if (
        first
        and config.compute_dtype == "float16"
        and any(facts.half_ops(after).values())
        and not tf.config.experimental.list_physical_devices("GPU")
    ):
        other = (
            "; --compute_dtype=bfloat16 may be faster" if tf.__version__ > "2" else ""
        )  # 1.15's CPU has no convolutions for it
        yield "no GPU here: this CPU emulates float16, slowly" + other


def scales_in_words(rows: List[Dict[str, Any]]) -> str:
    """Each initial value once: two losses often start alike."""
    starts = [
        "%s %s %g" % (row["kind"], "from" if row["kind"] == "dynamic" else "at", row["initial"])
        for row in rows
    ]
    texts = [
        "%s for each of %d losses" % (start, count) if count > 1 else start
        for start, count in collections.Counter(starts).items()
    ]
    return ", ".join(texts) or "none"
