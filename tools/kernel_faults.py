"""Half-precision kernels that end the process or give wrong values, on the TensorFlow that runs it.

    python tools/kernel_faults.py                writes its rows of graphmp/policy/kernel_faults.txt
    python tools/kernel_faults.py --ops=MatMul   writes those of some ops

Each op that the policy may make half is run in a child process, with inputs of 0, 1, 2 and odd
numbers of elements (`kernel_cases.py`), in float32 and in each half type; those that add up, with
many elements too. A fault is a case that
float32 computes, and half precision doesn't: the child ends or hangs, or a value differs by more
than half precision explains. Needs no GPU; with one, `--device=GPU` tries its kernels.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import select
import signal
import sys
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import numpy as np
import tensorflow.compat.v1 as tf
from parts.kernel_cases import Case, cases, long_sums

from graphmp.policy import policy as policies
from graphmp.policy.shape_faults import CASES, FAULTS, holds
from graphmp.policy.tables import FOLDER
from graphmp.policy.traits import WIDER_STATISTICS
from graphmp.tf_hooks.op_definitions import registered

HALVES = ("float16", "bfloat16")
TOLERANCE = {"float16": 0.01, "bfloat16": 0.06}  # of the largest value; sums are of few numbers
PATIENCE = 30  # seconds for a case
REPEATS = 3  # a wrong value comes each time
STATISTICS = ("scale", "offset", "mean", "variance", "reserve_space_1", "reserve_space_2",
              "reserve_space_3")  # fmt: skip
# spelled as in the table
ABORTS, HANGS, WRONG, REFUSES, FINE = (
    "ends_the_process",
    "hangs",
    "gives_wrong_values",
    "refuses_inputs",
    "fine",
)


class Tried(NamedTuple):
    """One case of an op in one half type: the shapes of its float inputs, and how it went."""

    shapes: List[Tuple[int, ...]]
    result: str


def main() -> int:
    """Try the ops, and write or print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", help="comma-separated; all by default")
    parser.add_argument("--device", default="CPU", choices=("CPU", "GPU"))
    args = parser.parse_args()
    rows, untried = [], []
    for dtype in HALVES:
        policy = policies.load(dtype, "")
        for op in _half_ops(policy, args.ops.split(",") if args.ops else None):
            tried = list(attempts(op, list(cases(op)), dtype, args.device))
            if not tried:
                untried.append("%s %s" % (dtype, op))
            sums = list(attempts(op, list(long_sums(op)), dtype, args.device))
            for row in filter(None, (fault(op, tried), fault(op, sums))):
                rows.append("%s %s %s" % (args.device, dtype, row))
                print(rows[-1], flush=True)
    print("no case: %s" % ", ".join(untried))
    write(rows, args.device, args.ops.split(",") if args.ops else None)
    return 0


def _half_ops(policy: Any, asked: Optional[Sequence[str]]) -> List[str]:
    may = policy.allow | policy.infer | policy.clear
    return sorted(may if asked is None else may & set(asked))


def attempts(op: str, listed: Sequence[Case], dtype: str, device: str) -> Iterator[Tried]:
    """The cases of an op that float32 computes, each with its result in half precision."""
    listed = listed if hasattr(tf.raw_ops, op) else []
    start = 0
    while start < len(listed):
        found, ended = _in_child(op, listed[start:], dtype, device)
        for number, result in found:
            if result is not None:
                yield Tried(_shapes(op, listed[start + number]), result)
        if ended is None:
            return
        start += ended + 1


def _in_child(
    op: str, listed: Sequence[Case], dtype: str, device: str
) -> Tuple[List[Tuple[int, Optional[str]]], Optional[int]]:
    """Results of the cases, and the case at which the child ended; None if it came through."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        _try_all(op, listed, dtype, device, writes)
        os._exit(0)
    os.close(writes)
    found: List[Tuple[int, Optional[str]]] = []
    at, in_half, hangs = 0, False, False
    with os.fdopen(reads) as lines:
        while True:
            if not select.select([lines], [], [], PATIENCE)[0]:
                os.kill(child, signal.SIGKILL)
                hangs = True
                break
            line = lines.readline()
            if not line:
                break
            number, stage, result = json.loads(line)
            at, in_half = number, stage == "half"
            if stage == "done":
                found.append((number, result))
                at += 1
    status = os.waitpid(child, 0)[1]
    if not status and not hangs:
        return found, None
    if in_half:
        found.append((at, HANGS if hangs else ABORTS))
    return found, at


def _try_all(op: str, listed: Sequence[Case], dtype: str, device: str, pipe: int) -> None:
    """Run the cases, and tell what is being done before it is done."""
    with os.fdopen(pipe, "w", 1) as lines:

        def tell(number: int, stage: str, result: Optional[str] = None) -> None:
            lines.write(json.dumps([number, stage, result]) + "\n")

        for number, case in enumerate(listed):
            tell(number, "float32")
            expected, again = (_run(op, case, tf.float32, device, dtype) for _ in range(2))
            if expected is None or _compared(expected, again, 0.0) != FINE:  # random, or not set
                tell(number, "done")
                continue
            tell(number, "half")
            for _ in range(REPEATS):
                found = _run(op, case, tf.as_dtype(dtype), device, dtype)
                result = _compared(expected, found, TOLERANCE[dtype])
                if result != WRONG:  # else it may be memory that nothing wrote, in float32 too
                    break
            tell(number, "done", result)


def _run(op: str, case: Case, dtype: Any, device: str, rounded: str) -> Optional[List[Any]]:
    """The outputs of an op; None if it can't be run. Float inputs are numbers that half holds."""
    half, feeds = tf.as_dtype(rounded).as_numpy_dtype, {}
    keeps = STATISTICS if op in WIDER_STATISTICS else ()

    def fed(name: str, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return [fed(name, each) for each in value]
        if not isinstance(value, (np.ndarray, np.generic)):
            return value
        is_half = value.dtype == np.float32 and name not in keeps
        kind = dtype if is_half else tf.as_dtype(value.dtype)
        tensor = tf.placeholder(kind, value.shape)
        value = value.astype(half) if is_half else value
        feeds[tensor] = value.astype(kind.as_numpy_dtype)
        return tensor

    try:
        with tf.Graph().as_default(), tf.device("/" + device.lower()):
            given = {name: fed(name, value) for name, value in case.items()}
            outputs = tf.raw_ops.__dict__[op](**given, **_types(op, dtype, given))
            config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
            with tf.Session(config=config) as session:
                used = _used(op, outputs, case.get("is_training", True))
                found = [np.asarray(each) for each in session.run(used, feeds)]
            # 2.21's float32 convolution of an empty batch has another shape than it should
            shaped = all(t.shape.is_compatible_with(each.shape) for t, each in zip(used, found))
            return found if shaped else None
    except Exception:  # of any kind: the case is none for this op, or there is no kernel
        return None


def _types(op: str, dtype: Any, given: Case) -> Case:
    """The attribute that says an op's output type, if no input does."""
    of_inputs = {arg.type_attr for arg in registered(op).input_arg}
    return {
        each.name: dtype
        for each in registered(op).attr
        if each.type == "type"
        and each.name not in of_inputs
        and not each.HasField("default_value")
        and each.name not in given
    }


def _used(op: str, outputs: Any, trains: bool) -> List[Any]:
    """The outputs, without those that kernels leave unset."""
    if not trains:
        return [outputs[0]]
    names = [arg.name for arg in registered(op).output_arg]
    if len(names) > 1 and op in WIDER_STATISTICS:
        outputs = [t for t, name in zip(outputs, names) if not name.startswith("reserve_space")]
    return _flat(outputs)


def _flat(outputs: Any) -> List[Any]:
    if isinstance(outputs, (list, tuple)):
        return [tensor for each in outputs for tensor in _flat(each)]
    return [outputs]


def _compared(expected: List[Any], found: Optional[List[Any]], tolerance: float) -> str:
    if found is None:
        return REFUSES
    for one, other in zip(expected, found):
        if one.dtype.kind not in "fV" or one.shape != other.shape:
            if one.shape != other.shape or not np.array_equal(one, other):
                return WRONG
            continue
        one, other = one.astype(np.float64), other.astype(np.float64)
        same = one[np.isfinite(one)]
        atol = tolerance * max(1.0, np.abs(same).max() if same.size else 1.0)
        if not np.allclose(one, other, rtol=0, atol=atol, equal_nan=True):
            return WRONG
    return FINE


def _shapes(op: str, case: Case) -> List[Tuple[int, ...]]:
    """The shapes of the inputs that become half."""
    keeps = STATISTICS if op in WIDER_STATISTICS else ()
    values = [
        each
        for name, value in case.items()
        if name not in keeps
        for each in (value if isinstance(value, list) else [value])
    ]
    return [each.shape for each in values if _is_float(each)]


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32


def fault(op: str, tried: Sequence[Tried]) -> Optional[str]:
    """A row without device and type: the op, the case in which it fails, how, and where."""
    bad = [each for each in tried if each.result != FINE]
    good = [each for each in tried if each.result == FINE]
    if not bad or all(each.result == REFUSES for each in tried):  # there is no kernel
        return None
    name = next(
        name
        for name in CASES
        if all(holds(name, each.shapes) for each in bad)
        and (name == CASES[-1] or not any(holds(name, each.shapes) for each in good))
    )
    shapes = " ".join(sorted({str(b.shapes[:1]).strip("[]").replace(" ", "") for b in bad})[:3])
    worst = next(how for how in (ABORTS, HANGS, WRONG, REFUSES) if how in {b.result for b in bad})
    return "%s %s %s # at %s, %d of %d cases" % (op, name, worst, shapes, len(bad), len(tried))


def write(rows: Sequence[str], device: str, ops: Optional[Sequence[str]] = None) -> None:
    """Replace the rows of this TensorFlow and device in the table, those of some ops or all."""
    version, path = tf.__version__, pathlib.Path(FOLDER) / FAULTS
    kept = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.startswith("%s %s " % (version, device))
        or (ops is not None and line.split()[3] not in ops)
    ]
    head = [line for line in kept if line.startswith("#")]
    others = [line for line in kept if line and not line.startswith("#")]
    today = datetime.date.today().isoformat()
    new = ["%s %s; tried %s" % (version, row, today) for row in rows]
    path.write_text("\n".join(head + sorted(others + new)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
