"""`graphmp audit`: both graphs on the same batches, and the effect on each tensor."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.audit.advice import Advice, advise
from graphmp.audit.audit import Audit, LossFinding, TensorFinding
from graphmp.audit.measure.rows import ACTIVATION_GRADIENT, ROLES, WEIGHT_GRADIENT
from graphmp.audit.measure.tally import Range, Tally
from graphmp.audit.options import AuditOptions
from graphmp.audit.pair.paired import PairedGraph
from graphmp.audit.pair.stepping import PairedStep, Stepper
from graphmp.conversion.conversion import Conversion
from graphmp.errors import GraphmpError
from graphmp.feeds.asked import asked_batches
from graphmp.feeds.batches import Batch, Batches, scalars_in_words
from graphmp.feeds.sources import is_python
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.policy.formats import FORMATS
from graphmp.report.training import fetchable
from graphmp.wording import first_line, some

MOST_MEASURED, LEAST_MEASURED = 10, 3  # steps
ENOUGH_MEASURED = 15000  # tensors in all steps
_DEAD = "does not have value"  # TensorFlow's words for a fetched tensor of a branch not taken
_BRANCH = (
    "step %d leaves out a branch in which gradients are computed that an audit compares: give the"
    " predicates by --data, if one batch can take all branches; `graphmp verify` proves the"
    " conversion of such a graph"
)
_FAILS = (
    "step %d does not run: %s; give batches that the original trains on, by --data and --batch_size"
)
_INITIAL = "; initial values fed by %s are made up: --checkpoint has those of a run"


def audit(
    conversion: Conversion,
    options: AuditOptions,
    tolerance: float = 0.1,
    progress: Callable[[int], None] = lambda step: None,
) -> Audit:
    """Measure a conversion.

    Args:
        conversion: both graphs, with the report, by the rewrite.
        options: data and steps.
        tolerance: the largest relative error of a weight gradient.
        progress: receives the number of finished steps.

    Raises:
        GraphmpError: GMP002, GMP003 for data that can't be read or doesn't fit, GMP023 if the graph
            doesn't train, GMP020 if it takes gradients in functions or loops alone, GMP024 if its
            step doesn't run.
    """
    arithmetic = chosen_arithmetic(options.arithmetic)
    paired = PairedGraph(conversion, arithmetic == "native", ROLES)
    tally = Tally(paired.rows, FORMATS[conversion.report["compute_dtype"]])
    with Stepper(paired) as stepper:
        stepper.begin(options.checkpoint)
        batches = batches_for(stepper, conversion.original, options)
        data = options.data or _made_up(conversion.original, batches(0), options.seed)
        data += _INITIAL % some(stepper.made_up) if stepper.made_up else ""
        measured = measured_steps(options.steps, len(paired.rows))
        steps, seconds = _run(stepper, batches, options.steps, measured, tally, progress)
    ranges, reasons = tally.ranges(), _reasons(conversion.report)
    return Audit(
        conversion.report["source"],
        conversion.report["compute_dtype"],
        arithmetic,
        data,
        options.steps,
        len(measured),
        _losses(conversion, steps, ranges),
        sorted(
            (_finding(each, reasons) for each in ranges),
            key=lambda finding: finding.severity,
            reverse=True,
        ),
        [row.name for row in paired.left_out],
        seconds,
        conversion.report["flags"],
        tolerance,
    )


def _made_up(original: tf.MetaGraphDef, batch: Batch, seed: int) -> str:
    """Made-up batches in words, with the results of Python functions among them."""
    python = {node.name for node in original.graph_def.node if is_python(node)}
    results = [name for name in sorted(batch) if parse_input(name).node in python]
    words = (
        "; values that are computed from %s are made up too: Python functions run in the script's"
        " process only"
    )
    said = words % some(results) if results else ""
    return "random, seed %d%s%s" % (seed, scalars_in_words(batch), said)


def chosen_arithmetic(asked: str) -> str:
    """The arithmetic for "auto" on this machine."""
    if asked != "auto":
        return asked
    return "native" if tf.config.experimental.list_physical_devices("GPU") else "simulated"


def batches_for(stepper: Stepper, original: tf.MetaGraphDef, options: AuditOptions) -> Batches:
    """The requested batches; of made-up ones the first that the step runs with."""
    fed = [*(op.name for op in stepper.targets), *stepper.read]
    batches = asked_batches(
        stepper.session,
        GraphView(original.graph_def),
        fed,
        stepper.probe,
        options.data,
        options.batch_size,
        options.seed,
    )
    if not options.data:
        stepper.begin_again(options.checkpoint)
    return batches


def _run(
    stepper: Stepper,
    batches: Batches,
    count: int,
    measured: Sequence[int],
    tally: Tally,
    progress: Callable[[int], None],
) -> Tuple[List[PairedStep], Dict[str, float]]:
    """Run the steps. A dynamic scale finds its start in one that doesn't count."""
    steps, seconds = [], {"plain_steps": 0.0, "measured_steps": 0.0}
    if stepper.adapts:
        with must_run(0):
            stepper.compare(batches(0), False)
    for number in range(count):
        with must_run(number):
            feeds = batches(number)
            start = time.time()
            steps.append(stepper.settled(feeds, number in measured))
            if number in measured:
                tally.add(*stepper.tables(), steps[-1].scales, steps[-1].finite)
            middle = time.time()
            stepper.step(feeds)
            seconds["measured_steps"] += middle - start
            seconds["plain_steps"] += time.time() - middle
        progress(number + 1)
    return steps, seconds


@contextlib.contextmanager
def must_run(number: int) -> Iterator[None]:
    """Raise GMP024 for a step of this number that TensorFlow doesn't run.

    GMP020 if it leaves out the branch of a conditional in which a compared value is computed.
    """
    try:
        yield
    except (tf.errors.OpError, ValueError, TypeError) as error:
        if _DEAD in str(error):
            raise GraphmpError("GMP020", _BRANCH % number) from None
        raise GraphmpError("GMP024", _FAILS % (number, first_line(error))) from None


def measured_steps(steps: int, tensors: int) -> Sequence[int]:
    """The indices of the measured steps, evenly from the first to the last.

    MOST_MEASURED at most; for a graph of many tensors fewer, but at least LEAST_MEASURED.
    """
    most = max(LEAST_MEASURED, min(MOST_MEASURED, ENOUGH_MEASURED // max(1, tensors)))
    if steps <= most:
        return range(steps)
    return sorted({round(n * (steps - 1) / (most - 1)) for n in range(most)})


def _losses(
    conversion: Conversion, steps: List[PairedStep], ranges: List[Range]
) -> List[LossFinding]:
    found = []
    for number, loss in enumerate(fetchable(conversion.report["losses"])):
        finite = [step.finite[number] for step in steps]
        scales = [step.scales[number] for step in steps]
        columns = (
            [step.original[number] for step in steps],
            [step.converted[number] for step in steps],
        )
        advice = _advice(ranges, number, conversion.report["compute_dtype"], scales[-1])
        found.append(LossFinding(list(loss["loss"]), *columns, scales, finite.count(False), advice))
    return found


def _advice(ranges: List[Range], loss: int, compute_dtype: str, scale: float) -> Advice:
    gradients = [
        r
        for r in ranges
        if r.row.loss == loss and r.row.role in (ACTIVATION_GRADIENT, WEIGHT_GRADIENT)
    ]
    half = [r for r in gradients if r.row.dtype]
    return advise([r.exponents for r in half or gradients], FORMATS[compute_dtype], scale)


def _finding(found: Range, reasons: Dict[str, str]) -> TensorFinding:
    half, node = found.row.dtype != 0, parse_input(found.row.name).node
    return TensorFinding(
        found,
        half,
        reasons.get(node, ""),
        "--keep_float32='^%s$'" % re.escape(node) if half else "",
    )


def _reasons(report: Dict[str, Any]) -> Dict[str, str]:
    """For each node of the main graph why it is half, or stayed float32."""
    found = {
        node: row["reason"]
        for row in report["float32_nodes"]
        if not row["body"]
        for node in row["nodes"]
    }
    for row in report["changes"]:
        if not row["body"] and row["change"].startswith("dtype of "):
            found[row["node"]] = row["reason"]
    return found
