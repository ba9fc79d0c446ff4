"""A conversion's report as a few lines of text."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, Iterator, List

from graphmp.cli.tables import labelled

_MOST_LOSSES = 4


def summary(report: Dict[str, Any], written: List[pathlib.Path], next_command: str) -> Iterator[str]:
    """Lines for a terminal: what was converted, how far, where scale, unscale and clip went, what to do next."""
    graph, coverage, variables = report["graph"], report["coverage"], report["variables"]
    yield labelled(
        report["source"].split("/")[-1],
        "%s -> %s nodes, TensorFlow %s"
        % (_n(graph["nodes_before"]), _n(graph["nodes_after"]), graph["tensorflow_version"] or report["tensorflow_version"]),
    )
    yield labelled("engine", "%s (%s)" % (report["engine"], report["engine_reason"]))
    if report["compute_dtype"] != "float32":
        others = sum(report["half_ops"].values()) - coverage["converted_ops"]
        line = "%s of %s matmuls and convolutions (forward and backward), %s other ops" % (
            _n(coverage["converted_ops"]),
            _n(coverage["tensor_core_ops"]),
            _n(others),
        )
        guarded = report["kept_float32"].get("range guard", 0)
        line += "; %s kept float32 by the range guard" % _n(guarded) if guarded else ""
        yield labelled(report["compute_dtype"], line)
        if report["repaired_ops"]:
            ops = ", ".join("%s %d" % item for item in _commonest(report["repaired_ops"]))
            text = "%s between them computed in float32 and cast back, as the policy says: %s"
            yield labelled("", text % (_count_of(graph["repaired"], "op"), ops))
        if report["half_ops"]:
            yield labelled("", ", ".join("%s %d" % item for item in _commonest(report["half_ops"])))
    yield labelled("variables", "%s of %s float32, names unchanged; float32 checkpoints load" % (_n(variables["float32"]), _n(variables["count"])))
    yield from _losses(report)
    yield labelled("casts", "%s between float32 and %s" % (_n(graph["casts_inserted"]), report["compute_dtype"]))
    yield labelled("checks", _checks(report["checks"]))
    yield from _warnings(report["warnings"])
    yield labelled("wrote", "  ".join(map(str, written)))
    yield labelled("next", next_command)


def _losses(report: Dict[str, Any]) -> Iterator[str]:
    if not report["losses"]:
        yield labelled("loss", "no gradients found: nothing scaled or clipped")
    for loss in report["losses"][:_MOST_LOSSES]:
        counts = (_count(loss["seeds"], "seed"), _count(loss["gradients"], "gradient"), _count(loss["updates"], "update"))
        scale = _scale(report["loss_scale"]) if loss["scale"] else "none"
        clip = "clip %s" % " and ".join(_clips(report, loss))
        yield labelled("loss", "%s: %s, %s, %s; scale %s; %s" % (loss["gradient_scope"], *counts, scale, clip))
        yield from (labelled("", line) for line in _where(loss))
    if len(report["losses"]) > _MOST_LOSSES:
        yield labelled("", "and %s more in report.json" % _n(len(report["losses"]) - _MOST_LOSSES))


def _where(loss: Dict[str, Any]) -> Iterator[str]:
    """Where in the graph the parts of loss scaling are."""
    if loss["scale"]:
        yield "multiplied by %s, gradients divided by it in %s/unscale*" % (loss["scale"], loss["scale"].rsplit("/", 1)[0])
    checks = ["checked in %s" % loss["finite"]] if loss["finite"] else []
    checks += ["clipped in %s" % loss["clip"]] if loss["clip"] else []
    checks += ["a skipped step leaves out %s" % _count(loss["gated"], "write")] if loss["gated"] else []
    if checks:
        yield ", ".join(checks)
    if loss["user_clips"]:
        row, more = loss["user_clips"][0], len(loss["user_clips"]) - 1
        side = {True: ", after the unscale", False: ", BEFORE the unscale", None: ""}[row["after_unscale"]]
        yield "the model's own clip: %s%s%s" % (row["node"], " (and %d more in report.json)" % more if more else "", side)


def _clips(report: Dict[str, Any], loss: Dict[str, Any]) -> Iterator[str]:
    """graphmp's clip and the model's own, each kind of it once."""
    if loss["clip"]:
        yield "global norm %g" % report["clip_norm"]
    yield from dict.fromkeys("%s (the model's own)" % _user_clip(row) for row in loss["user_clips"])
    if not loss["clip"] and not loss["user_clips"]:
        yield "none"


def _user_clip(row: Dict[str, Any]) -> str:
    if row["limits"]:
        return "%s to [%s]" % (row["kind"], ", ".join("?" if limit is None else "%g" % limit for limit in row["limits"]))
    return row["kind"] + (" %g" % row["norm"] if row["norm"] is not None else "")


def _scale(loss_scale: Dict[str, Any]) -> str:
    if loss_scale["kind"] == "none":
        return "none"
    return "dynamic from %s" % _n(loss_scale["initial"]) if loss_scale["kind"] == "dynamic" else "fixed %s" % _n(loss_scale["initial"])


def _checks(checks: List[Dict[str, str]]) -> str:
    """What the comparison of the two graphs proved."""
    failed = ["%s: %s" % (check["name"], check["text"]) for check in checks if check["status"] == "failed"]
    passed = [check["name"] for check in checks if check["status"] == "passed"]
    return "FAILED " + "; ".join(failed) if failed else "passed: " + ", ".join(passed)


def _warnings(warnings: List[Dict[str, str]]) -> Iterator[str]:
    for code in sorted({warning["code"] for warning in warnings}):
        alike = [warning for warning in warnings if warning["code"] == code]
        more = " (and %d more in report.json)" % (len(alike) - 1) if len(alike) > 1 else ""
        said = " ".join(filter(None, (code, alike[0]["node"], alike[0]["message"])))
        yield labelled("warning", said + more)


def _commonest(ops: Dict[str, int], most: int = 8) -> List[Any]:
    return sorted(ops.items(), key=lambda item: (-item[1], item[0]))[:most]


def _n(number: Any) -> str:
    return f"{number:,.10g}"


def _count(items: List[str], noun: str) -> str:
    return _count_of(len(items), noun)


def _count_of(number: int, noun: str) -> str:
    return "%d %s%s" % (number, noun, "" if number == 1 else "s")
