"""Time graphmp.Session beside a plain tf.Session, in turn: runs, and Savers that come late.

python tools/time_session.py
python tools/time_session.py --runs 2000 --savers 100 --json

Of each Saver, made after a training step and used at once, it also counts the nodes that the graph
gains.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any, Dict, List

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tensorflow.compat.v1 as tf

import graphmp

MOST_MICROSECONDS = 30.0
MOST_RATIO = 2.0


def main() -> int:
    """Print what was measured.

    Exit status 1 if conversion adds more than 30 microseconds to a run, or if a late Saver takes
    twice plain TensorFlow's time or adds clones, the first one aside.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=2000, help="interleaved runs of each session (default: 2000)"
    )
    parser.add_argument(
        "--savers", type=int, default=100, help="late Savers of each session (default: 100)"
    )
    parser.add_argument("--compute_dtype", default="float16", help="of the session with Savers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    plain, mapped = measure(args.runs)
    found: Dict[str, Any] = {
        "plain_us": round(plain, 1),
        "graphmp_us": round(mapped, 1),
        "added_us": round(mapped - plain, 1),
        "runs": args.runs,
    }
    text = (
        "plain %(plain_us)s us, graphmp.Session %(graphmp_us)s us, "
        "added %(added_us)s us, %(runs)d runs"
    )
    if args.savers:
        found.update(late_savers(args.savers, args.compute_dtype))
        text += (
            "\na late Saver and its save: plain %(saver_plain_ms)s ms, graphmp.Session "
            "%(saver_graphmp_ms)s ms, ratio %(saver_ratio)s; nodes: its own %(saver_nodes)d, "
            "clones %(clones_of_first)d of the first, %(clones_of_others)d of the other %(others)d"
        )
    print(json.dumps(found) if args.json else text % found)
    slow = found.get("saver_ratio", 0) >= MOST_RATIO or found.get("clones_of_others", 0) > 0
    return int(mapped - plain > MOST_MICROSECONDS or slow)


def late_savers(count: int, compute_dtype: str) -> Dict[str, Any]:
    """Processor time and nodes of Savers made and used after the conversion, of each session.

    The ratio is the median of the ratios of each pair. The nets have twelve dense layers.
    """
    plain, mapped = (
        _trained(make)
        for make in (
            tf.Session,
            lambda graph: graphmp.Session(graph=graph, compute_dtype=compute_dtype),
        )
    )
    times: List[List[float]] = []
    nodes: List[List[int]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            rows = [_saved(session, folder, number) for session in (plain, mapped)]
            times.append([row[0] for row in rows])
            nodes.append([row[1] for row in rows])
    clones = [more - own for own, more in nodes]
    return {
        "saver_plain_ms": round(1e3 * statistics.median(each[0] for each in times), 1),
        "saver_graphmp_ms": round(1e3 * statistics.median(each[1] for each in times), 1),
        "saver_ratio": round(statistics.median(b / a for a, b in times), 2),
        "saver_nodes": nodes[0][0],
        "clones_of_first": clones[0],
        "clones_of_others": sum(clones[1:]),
        "others": count - 1,
    }


def _trained(make: Any) -> Any:
    """A session of a graph of its own that has trained one step."""
    with tf.Graph().as_default() as graph:
        tensor = x = tf.placeholder(tf.float32, [None, 16])
        for layer in range(12):
            weights = tf.get_variable("w%d" % layer, [16, 16])
            tensor = tf.nn.relu(tf.matmul(tensor, weights))
        train = tf.train.AdamOptimizer(1e-3).minimize(tf.reduce_mean(tf.square(tensor)))
        session = make(graph=graph)
        session.run(tf.global_variables_initializer())
        session.run(train, {x: [[1.0] * 16]})
    return session


def _saved(session: Any, folder: str, number: int) -> Any:
    """Processor seconds of a new Saver and a save, and the nodes that the graph gained."""
    before, start = len(session.graph.get_operations()), time.process_time()
    with session.graph.as_default():
        path = pathlib.Path(folder) / ("%d-%d" % (id(session), number))
        tf.train.Saver().save(session, str(path))
    taken = time.process_time() - start
    return taken, len(session.graph.get_operations()) - before


def measure(runs: int) -> tuple[float, float]:
    """Medians in microseconds of a run that fetches the loss and the train op of a small net.

    The nodes of the net are shared, not cloned. compute_dtype=float32 without a loss scale leaves
    the graph unchanged: both sessions compute the same, and only the time in Python differs.
    """
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [1, 2])
        loss = tf.reduce_sum(tf.matmul(x, tf.get_variable("w", [2, 1])))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        init, feed = tf.global_variables_initializer(), {x: [[1.0, 2.0]]}
        with tf.Session() as plain, graphmp.Session(
            compute_dtype="float32", loss_scale="none"
        ) as mapped:
            times = {}
            for session in (plain, mapped):
                session.run(init)
                session.run([loss, train], feed)
                times[session] = []
            for _ in range(runs):
                for session, found in times.items():
                    start = time.perf_counter()
                    session.run([loss, train], feed)
                    found.append(time.perf_counter() - start)
            return tuple(1e6 * statistics.median(times[session]) for session in (plain, mapped))


if __name__ == "__main__":
    raise SystemExit(main())
