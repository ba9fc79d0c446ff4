"""Converting a graph that is already built, by the rewrite."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.diff.compare import compare
from graphmp.errors import GraphmpError
from graphmp.policy import policy as policies
from graphmp.report.report import check_variables, make_report
from graphmp.rewrite.pipeline import rewrite
from graphmp.runtime.conversion import Conversion
from graphmp.runtime.stages import Stages


class Identity(NamedTuple):
    """What the report says of a graph's source: its name, the SHA-256 of its bytes, and why the rewrite was taken."""

    source: str
    digest: str
    reason: str


def convert_graph(original: tf.MetaGraphDef, identity: Identity, config: Config, stages: Stages, flags: List[str]) -> Conversion:
    """Rewrites a MetaGraphDef; it is not changed itself.

    Raises:
        GraphmpError: GMP020 for a loss scale or clip that was asked for; as `graphmp.rewrite.pipeline.rewrite`; GMP014 where a variable would change.
    """
    config, warnings = _without_scaling(config)
    with stages.stage("rewrite", "painting the graph"):
        done = rewrite(original, config, policies.load(config.compute_dtype, config.op_policy))
    done.record["warnings"].extend(warnings)
    with stages.stage("report", "comparing the graphs"):
        check_variables(original, done.meta_graph)
        diff = compare(original, done.meta_graph)
        name, digest, reason = identity
        report = make_report(original, done.meta_graph, config, name, digest, "rewrite", reason, done.record, stages.seconds, diff)
    report["seconds"] = stages.rounded()
    return Conversion(original, done.meta_graph, report, flags, diff)


def _without_scaling(config: Config) -> Tuple[Config, List[Dict[str, str]]]:
    """The options with the default loss scale taken out, which the rewrite does not thread in yet, and the warning that says so."""
    if config.clip_norm or (config.loss_scale != "none" and not config.loss_scale_is_default):
        text = "--loss_scale=%s --clip_norm=%g: the rewrite neither scales nor clips yet; accepted for a built graph is --loss_scale=none"
        raise GraphmpError("GMP020", text % (config.loss_scale, config.clip_norm))
    if config.loss_scale == "none":
        return config, []
    message = "gradients are not scaled: the rewrite threads no loss scale in yet; --loss_scale=none says so, --compute_dtype=bfloat16 needs none"
    return replace(config, loss_scale="none"), [{"code": "GMP110", "node": "", "message": message}]
