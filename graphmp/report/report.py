"""Building, checking and writing report.json."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
from typing import Any, Dict, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.compare.api import Diff, compare
from graphmp.compare.categories import ADDED, RENAMED
from graphmp.compare.explain import described, explained
from graphmp.config import Config
from graphmp.errors import GraphmpError, warning
from graphmp.graph.state.variables import float32_kept, variables
from graphmp.policy import policy as policies
from graphmp.policy.layout import is_channels_first
from graphmp.policy.reason import Done
from graphmp.report import facts
from graphmp.report.clips import user_clips
from graphmp.report.coverage import nothing_in_half, some_in_float32
from graphmp.report.float32 import float32_nodes
from graphmp.report.kernels_here import missing_kernels
from graphmp.report.reasons import Context, stated
from graphmp.report.record import Record
from graphmp.report.training import with_train_ops
from graphmp.version import __version__
from graphmp.wording import json_escaped

_encoded = json.JSONEncoder(ensure_ascii=False).encode
SCHEMA = "graphmp.report/1"


def make_report(
    original: Any,
    converted: Any,
    config: Config,
    source: str,
    digest: str,
    engine: str,
    engine_reason: str,
    record: Record,
    seconds: Dict[str, float],
    differences: Optional[Diff] = None,
) -> Dict[str, Any]:
    """The report of a conversion, as a JSON value of schema `graphmp.report/1`.

    Args:
        original: MetaGraphDef before.
        converted: MetaGraphDef after.
        config: the options.
        source: the converted source, as the user named it.
        digest: SHA-256 of the source, hexadecimal.
        engine: "recipe" or "rewrite".
        engine_reason: why this engine was used.
        record: the engine's record.
        seconds: time of each stage.
        differences: the comparison of the two graphs, if it exists already.
    """
    before, after = original.graph_def, converted.graph_def
    differences = differences or compare(original, converted)
    view, counts = differences.bodies[0].after, facts.counts(after)
    scales = record.scales
    report = {
        "schema": SCHEMA,
        "graphmp_version": __version__,
        "tensorflow_version": tf.__version__,
        "source": source,
        "source_sha256": digest,
        "flags": config.as_flags(),
        "engine": engine,
        "engine_reason": engine_reason,
        "compute_dtype": config.compute_dtype,
        "graph": {
            "tensorflow_version": original.meta_info_def.tensorflow_version,
            "nodes_before": len(before.node),
            "nodes_after": len(after.node),
            "casts_inserted": counts.casts - facts.casts(before),
            "repaired": len(record.repaired),
        },
        "coverage": facts.coverage_of(counts),
        "half_ops": dict(sorted(counts.half_ops.items())),
        "repaired_ops": facts.ops_of(record.repaired, after),
        "kept_float32": record.kept,
        "variables": dict(zip(("count", "float32"), float32_kept(before, after))),
        "loss_scale": {
            "kind": scales[0]["kind"] if scales else _kind_asked_for(config),
            "initial": scales[0]["initial"] if scales else None,
            "losses": len(record.losses),
        },
        "clip_norm": config.clip_norm or None,
        "losses": [
            dict(loss, user_clips=user_clips(view, loss))
            for loss in with_train_ops(record.losses, view)
        ],
        "changes": changes(differences, config, record, engine),
        "float32_nodes": float32_nodes(
            converted, record, policies.load(config.compute_dtype, config.op_policy)
        ),
        "warnings": [
            *record.warnings,
            *nothing_in_half(after, config, record),
            *some_in_float32(after, config, record),
            *_channels_first_warnings(after),
            *missing_kernels(after),
        ],
        "seconds": {stage: round(time, 3) for stage, time in seconds.items()},
    }
    if record.costs:
        report["costs"] = dict(record.costs)
    report["checks"] = [
        {"name": c.name, "status": c.verdict, "text": c.text}
        for c in explained(differences, report).claims
    ]
    return report


def _kind_asked_for(config: Config) -> str:
    """The kind of loss scale that the options ask for."""
    return config.loss_scale if config.loss_scale in ("none", "dynamic") else "fixed"


def changes(differences: Diff, config: Config, record: Record, engine: str) -> List[Dict[str, str]]:
    """A row for each explained change: where, what, the kind of reason, and the reason."""
    done: Dict[str, List[Done]] = {}
    for row in record.done:
        done.setdefault(row.node, []).append(row)
    context = Context(
        policies.load(config.compute_dtype, config.op_policy),
        done,
        {body.name: body for body in differences.bodies},
        {change.path for change in differences.changes if change.category in (ADDED, RENAMED)},
        engine == "recipe",
    )
    found = [(change, stated(change, context)) for change in differences.changes]
    return [
        {
            "body": c.body,
            "node": c.node,
            "change": described(c),
            "kind": why.kind,
            "reason": why.text,
        }
        for c, why in found
        if why
    ]


def check_variables(original: Any, converted: Any) -> None:
    """Check that no variable changed its name, dtype or shape.

    Raises:
        GraphmpError: GMP014, naming the variable.
    """
    after = {v.name: v for v in variables(converted.graph_def)}
    before = {v.name: v for v in variables(original.graph_def)}
    for name, variable in sorted(before.items()):
        found = after.get(name)
        if found is None:
            raise GraphmpError(
                "GMP014", "variable %s of the original is not in the converted graph" % name
            )
        if (found.dtype, found.shape) != (variable.dtype, variable.shape):
            raise GraphmpError(
                "GMP014",
                "variable %s is %s, was %s"
                % (name, tf.as_dtype(found.dtype).name, tf.as_dtype(variable.dtype).name),
            )
    added = sorted(name for name in set(after) - set(before) if not name.startswith("graphmp/"))
    if added:
        raise GraphmpError(
            "GMP014", "variable %s of the converted graph is not in the original" % added[0]
        )


def as_json(report: Dict[str, Any]) -> bytes:
    """Contents of report.json: sorted keys, one line a value."""
    # written in pieces: all pieces of a large report take as much memory as the graph
    written = io.BytesIO()
    for piece in _pieces(report, "\n"):
        written.write(json_escaped(piece).encode("utf-8"))
    written.write(b"\n")
    return written.getvalue()


def _pieces(value: Any, line: str) -> Iterator[str]:
    """A value as json writes it with `indent=1`, in pieces, in a third of the time.

    Python writes indented JSON by code of its own; the texts, which are most of a report, are
    written by C.

    Args:
        value: the value.
        line: the line break before its closing bracket, with the indentation.
    """
    if isinstance(value, dict) and value:
        between = "{"
        for key in sorted(value):
            inner = value[key]
            yield "%s%s %s: " % (between, line, _encoded(key))
            if isinstance(inner, (dict, list, tuple)):
                yield from _pieces(inner, line + " ")
            else:
                yield _encoded(inner)
            between = ","
        yield line + "}"
    elif isinstance(value, (list, tuple)) and value:
        between = "["
        for inner in value:
            yield between + line + " "
            yield from _pieces(inner, line + " ")
            between = ","
        yield line + "]"
    else:
        yield _encoded(value)


def sha256(path: pathlib.Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _channels_first_warnings(graph_def: Any) -> List[Dict[str, str]]:
    """Warnings for 1.15.5, whose CPU has no channels-first kernels and can't convert the layout."""
    if hasattr(tf.ConfigProto().graph_options.rewrite_options, "cpu_layout_conversion"):
        return []
    names = [node.name for node in graph_def.node if is_channels_first(node)][:1]
    return [
        warning("GMP106", name, "is channels first: it needs a GPU here, or TensorFlow 2")
        for name in names
    ]
