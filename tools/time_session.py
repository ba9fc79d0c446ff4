"""Time the overhead in Python of graphmp.Session: medians of runs, interleaved with a plain one's.

python tools/time_session.py
python tools/time_session.py --runs 2000 --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import tensorflow.compat.v1 as tf

import graphmp

MOST_MICROSECONDS = 30.0


def main() -> int:
    """Print the medians in microseconds; exit status 1 if conversion adds more than 30."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=2000, help="interleaved runs of each session (default: 2000)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    plain, mapped = measure(args.runs)
    found = {
        "plain_us": round(plain, 1),
        "graphmp_us": round(mapped, 1),
        "added_us": round(mapped - plain, 1),
        "runs": args.runs,
    }
    print(
        json.dumps(found)
        if args.json
        else "plain %(plain_us)s us, graphmp.Session %(graphmp_us)s us, "
        "added %(added_us)s us, %(runs)d runs" % found
    )
    return int(mapped - plain > MOST_MICROSECONDS)


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
