"""The claims made by running an original and its conversion, added to the proof's."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.audit.options import AuditOptions
from graphmp.audit.run import chosen_arithmetic
from graphmp.conversion.conversion import Conversion
from graphmp.errors import GraphmpError
from graphmp.executed import same
from graphmp.executed.again import SCALES, Again, train_ops
from graphmp.executed.agreement import AGREES, agreement
from graphmp.executed.equal_steps import AGAIN, same_again, same_given
from graphmp.executed.order import open_order
from graphmp.executed.scales import find_scales
from graphmp.executed.skip_claim import SKIPS, skips
from graphmp.executed.variables import VariableSession
from graphmp.feeds.asked import asked_batches
from graphmp.feeds.batches import Batches
from graphmp.graph.structure.view import GraphView
from graphmp.policy.half_kernels import DEVICES
from graphmp.verify.proof import NOT_APPLICABLE, NOT_PROVED, Claim, Proof
from graphmp.verify.prove import prove
from graphmp.wording import first_line


def proof_with_steps(
    original: tf.MetaGraphDef,
    converted: tf.MetaGraphDef,
    options: AuditOptions,
    tolerance: float,
    report: Optional[Mapping[str, Any]],
    begin: Callable[[str], None],
    expected: Optional[Mapping[str, Any]] = None,
    devices: Sequence[str] = DEVICES,
) -> Proof:
    """The proof of a conversion, followed by claims from running it, unless the graph is broken.

    Args:
        original: the graph before.
        converted: the graph after it.
        options: data and steps.
        tolerance: of the audit.
        report: of the conversion, if available.
        begin: receives each stage as it begins.
        expected: as for `graphmp.verify.prove.prove`.
        devices: likewise.

    Raises:
        GraphmpError: GMP002, GMP003, GMP024 if the original can't be run on the data.
    """
    begin("proving")
    proof = prove(original, converted, expected, devices)
    if proof.is_broken:
        return proof
    claims = Executed(original, converted, options, tolerance, report, begin).claims()
    return proof._replace(claims=(*proof.claims, *claims))


class Executed:
    """One original and its conversion, to be run."""

    def __init__(
        self,
        original: tf.MetaGraphDef,
        converted: tf.MetaGraphDef,
        options: AuditOptions,
        tolerance: float,
        report: Optional[Mapping[str, Any]] = None,
        begin: Callable[[str], None] = lambda stage: None,
    ):
        """Runs nothing yet.

        Args:
            original: the graph before.
            converted: the graph after it.
            options: data and steps.
            tolerance: of the audit.
            report: of the conversion, if available: writes of a skipped step must be in it.
            begin: receives each stage as it begins.
        """
        self._original, self._converted, self._options, self._tolerance, self._report = (
            original,
            converted,
            options,
            tolerance,
            report,
        )
        self._begin = begin

    def claims(self) -> List[Claim]:
        """All claims.

        Raises:
            GraphmpError: GMP002, GMP003, GMP024 if the original can't be run on the data.
        """
        self._begin("converting again")
        again = Again(self._original, self._converted)
        try:
            first = again.in_float32(SCALES[0])
        except GraphmpError as error:
            return [
                Claim(name, NOT_PROVED, "the original can't be converted again: %s" % error.message)
                for name in (AGAIN, SKIPS, AGREES)
            ]
        train = train_ops(first)
        if not train:
            return [Claim(AGAIN, NOT_APPLICABLE, "no training step was found in the original")]
        self._begin("running the original")
        steps = same.Steps(
            train, self._batches(train), self._options.steps, open_order(self._original, train)
        )
        wanted = self._expected(steps)
        self._begin("running the conversion")
        found = find_scales(self._original, self._converted)
        start, listed = wanted.start, self._listed()
        simulates = chosen_arithmetic(self._options.arithmetic) == "simulated"
        return [
            same_again(self._original, again, first.meta_graph, wanted),
            same_given(self._original, self._converted, found, wanted, self._options.checkpoint),
            skips(self._original, again, found, steps, start, listed, simulates),
            self._agrees(again, train),
        ]

    def _batches(self, train: Sequence[str]) -> Batches:
        view, options = GraphView(self._original.graph_def), self._options
        with _of_original(options), VariableSession(
            self._original, train, checkpoint=options.checkpoint, on_gpu=True
        ) as session:
            return asked_batches(
                session.session,
                view,
                train,
                session.targets,
                options.data,
                options.batch_size,
                options.seed,
            )

    def _expected(self, steps: same.Steps) -> same.Expected:
        with _of_original(self._options):
            return same.expected(self._original, steps, self._options.checkpoint)

    def _listed(self) -> Optional[Set[str]]:
        """The writes of skipped steps in the report; None without a report."""
        if self._report is None:
            return None
        return {
            row["node"] for loss in self._report["losses"] for row in loss.get("not_skipped", ())
        }

    def _agrees(self, again: Again, train: List[str]) -> Claim:
        if not again.is_half:
            return Claim(AGREES, NOT_APPLICABLE, "nothing is in half precision")
        if again.is_recipe:
            return Claim(
                AGREES,
                NOT_PROVED,
                "the recipe built a graph of its own, whose gradients can't be compared node by"
                " node",
            )
        self._begin("auditing")
        try:
            report = again.as_claimed().report
        except GraphmpError as error:
            return Claim(AGREES, NOT_PROVED, error.message)
        conversion = Conversion(self._original, self._converted, report)
        return agreement(conversion, again.unscaled, train, self._options, self._tolerance)


@contextlib.contextmanager
def _of_original(options: AuditOptions) -> Iterator[None]:
    """Turn TensorFlow's errors in a run of the original into one of ours."""
    try:
        yield
    except (tf.errors.OpError, ValueError, TypeError) as error:
        text = "the original does not run%s: %s"
        batches = "" if options.data else " on made-up batches (--data gives others)"
        raise GraphmpError("GMP024", text % (batches, first_line(error))) from None
