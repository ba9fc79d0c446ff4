"""Converting a graph that is already built, by the rewrite."""

from __future__ import annotations

from typing import List, NamedTuple

from graphmp.compare.api import compare
from graphmp.config import Config
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.stages import Stages
from graphmp.graph.io.stored import StoredMetaGraph
from graphmp.policy import policy as policies
from graphmp.process_memory import give_back
from graphmp.report.report import check_variables, make_report
from graphmp.rewrite.pipeline import rewrite

# bytes of a graph: a garbage collection walks all that TensorFlow imported, in 0.2 s
_LARGE = 1 << 20


class Identity(NamedTuple):
    """A graph's source for the report: name, SHA-256, and the reason for the rewrite."""

    source: str
    digest: str
    reason: str


def convert_graph(
    original: StoredMetaGraph,
    identity: Identity,
    config: Config,
    stages: Stages,
    flags: List[str],
    proves: bool = True,
) -> Conversion:
    """Rewrite a graph.

    Args:
        original: the graph.
        identity: for the report.
        config: the options.
        stages: are told what is done.
        flags: lines of a flagfile that repeats the conversion.
        proves: whether the report has the proof.

    Raises:
        GraphmpError: as `graphmp.rewrite.pipeline.rewrite`; GMP014 if a variable would change.
    """
    with stages.stage("rewrite", "painting the graph"):
        done = rewrite(
            original,
            config,
            policies.load(config.compute_dtype, config.op_policy),
            recorded=original.recorded,
        )
        if len(original.data) > _LARGE:
            give_back(2)  # the rewrite's graphs: the proof takes as much memory again
    with stages.stage("report", "comparing the graphs"), original.held(), done.converted.held():
        check_variables(original, done.converted)
        diff = compare(original, done.converted, prove=proves)
        name, digest, reason = identity
        report = make_report(
            original,
            done.converted,
            config,
            name,
            digest,
            "rewrite",
            reason,
            done.record,
            stages.seconds,
            diff,
        )
    report["seconds"] = stages.rounded()
    return Conversion(original, done.converted, report, flags, diff)
