#!/usr/bin/env python3
"""Time an audit of a graph beside its plain training steps, in one run.

    python tools/time_audit.py GRAPH.meta
    python tools/time_audit.py GRAPH.meta --steps 100 --batch_size 32 --json

Prints wall-clock and processor seconds; the latter hardly depend on other load on the machine.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import numpy as np
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.options import AuditOptions
from graphmp.audit.run import audit
from graphmp.feeds.attempts import first_that_runs, random_attempts
from graphmp.gate.reading import read_graph
from graphmp.graph.structure.view import GraphView


def main() -> int:
    """Print seconds and their ratio, on random batches for the graph's placeholders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", metavar="GRAPH.meta")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    start = now()
    conversion = graphmp.convert(args.graph)
    converted = now()
    audit(conversion, AuditOptions(steps=args.steps, batch_size=args.batch_size))
    audited = now()
    plain, steps = plain_seconds(
        args.graph, [name for loss in conversion.report["losses"] for name in loss["updates"]], args
    )
    found = {"nodes": len(conversion.original.graph_def.node), "steps": args.steps}
    for number, kind in enumerate(("", "cpu_")):
        convert_s, audit_s, plain_s, steps_s = (
            seconds[number] for seconds in (converted - start, audited - converted, plain, steps)
        )
        found.update(
            {
                kind + "convert_s": round(convert_s, 2),
                kind + "audit_s": round(audit_s, 2),
                kind + "plain_s": round(plain_s, 2),
                kind + "plain_steps_alone_s": round(steps_s, 2),
                kind + "ratio": round((convert_s + audit_s) / plain_s, 2),
                kind + "ratio_to_steps_alone": round((convert_s + audit_s) / steps_s, 2),
            }
        )
    print(json.dumps(found) if args.json else "  ".join("%s %s" % item for item in found.items()))
    return 0


def now() -> np.ndarray:
    """Wall-clock and processor seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def plain_seconds(
    path: str, updates: list[str], args: argparse.Namespace
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of a session that imports, initialises and trains the graph, and of its steps alone.

    The steps leave out the first one.
    """
    start = now()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(read_graph(path), clear_devices=True)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        ops = [graph.get_operation_by_name(name) for name in updates]
        batches = first_that_runs(
            session,
            ops,
            random_attempts(
                graph, GraphView(read_graph(path).graph_def), updates, args.batch_size, 0
            ),
        )
        first = now()
        for step in range(args.steps):
            session.run(ops, batches(step))
        return now() - start, now() - first


if __name__ == "__main__":
    if tf.__version__ > "2":
        tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    raise SystemExit(main())
