#!/usr/bin/env python3
"""Regenerate the drawings of docs/concepts.md from examples/simple_cnn.py and its conversion.

usage: drawings.py [-o docs]

    python tools/drawings.py

Graphviz's dot draws `storage.svg` and `unscale.svg`, the output of `graphmp diff --format=dot` for
one node, and `paint.svg`, the forward pass coloured by the lists of the op policy. matplotlib draws
`exponents.svg`, the powers of two of the gradients as `graphmp audit` counts them. Exit status 2 if
one of the two programs is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any, Iterator, List, Optional, Set

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.audit.options import AuditOptions
from graphmp.conversion.quiet import quiet_stderr
from graphmp.policy.formats import EXPONENT_BIAS, FLOAT16
from graphmp.policy.policy import Policy

with quiet_stderr():  # TensorFlow writes to stderr when imported
    import graphmp
    from graphmp.audit.run import audit
    from graphmp.files.single import write_atomic
    from graphmp.graph.structure.view import GraphView

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "simple_cnn.py"
LOSS = "sparse_softmax_cross_entropy_loss/xentropy/xentropy"
# Drawings of a node's neighbourhood: the node, and the distance in edges.
AROUND = {"storage.svg": ("hidden/MatMul", 2), "unscale.svg": ("graphmp/loss_scale/unscale_2", 1)}
LISTS = {"allow": "#4caf50", "infer": "#a5d6a7", "clear": "#e0f2e1", "deny": "#ef9a9a"}
BLUE = "#1565c0"
GREY = "#9e9e9e"
SCALE = 2.0**10  # in the drawing of exponents
GRADIENTS = ("activation gradient", "weight gradient")
LOWEST, HIGHEST = -40, 20  # powers of two that are drawn


def main(argv: Optional[List[str]] = None) -> int:
    """Make the drawings. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-o",
        "--output",
        type=pathlib.Path,
        default=ROOT / "docs",
        metavar="FOLDER",
        help="output folder (default: docs)",
    )
    args = parser.parse_args(argv)
    for missing in missing_programs():
        print("drawings: %s is not there" % missing, file=sys.stderr)
        return 2
    conversion = graphmp.convert(str(EXAMPLE), arguments=["--smoke"], engine="rewrite")
    drawn = {
        name: svg(conversion.diff().to_dot(node, depth)) for name, (node, depth) in AROUND.items()
    }
    drawn["paint.svg"] = svg(painted(conversion))
    drawn["exponents.svg"] = histogram(gradient_exponents(conversion))
    for name, data in sorted(drawn.items()):
        write_atomic(args.output / name, data)
        print("%s %.1f kB" % (args.output / name, len(data) / 1000))
    return 0


def missing_programs() -> Iterator[str]:
    """The missing programs, each with how to install it."""
    if shutil.which("dot") is None:
        yield "Graphviz's dot (apt-get install graphviz)"
    if importlib.util.find_spec("matplotlib") is None:
        yield "matplotlib (pip install 'graphmp[plot]')"


def svg(dot: str) -> bytes:
    """A DOT graph drawn by Graphviz, as SVG."""
    return subprocess.run(
        ["dot", "-Tsvg"], input=dot.encode("utf-8"), stdout=subprocess.PIPE, check=True
    ).stdout


def painted(conversion: Any) -> str:
    """The float nodes from inputs and variables to the loss, as DOT text.

    They are coloured by list, with a blue border if the conversion made them half precision.
    """
    policy, after = Policy.default("float16"), GraphView(conversion.meta_graph.graph_def)
    before = GraphView(conversion.original.graph_def)
    shown = forward(before, LOSS)
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box, style=filled, fontsize=10];"]
    for name in sorted(shown):
        node, listed = before.nodes[name], policy.category(before.nodes[name].op)
        half = after.nodes[name].attr["T"].type != node.attr["T"].type
        label = "%s\\n%s, %s\\n%s" % (
            name.split("/")[-1] if name == LOSS else name,
            node.op,
            listed,
            "float16" if half else "float32",
        )
        border = "color=%s, penwidth=2" % _quoted(BLUE) if half else "color=black"
        lines.append(
            "  %s [label=%s, fillcolor=%s, %s];"
            % (_quoted(name), _quoted(label), _quoted(LISTS[listed]), border)
        )
    for name in sorted(shown):
        lines += [
            "  %s -> %s;" % (_quoted(port.node), _quoted(name))
            for port in before.inputs(name)
            if port.node in shown
        ]
    return "\n".join([*lines, "}", ""])


def forward(view: GraphView, last: str) -> Set[str]:
    """The nodes on a list of the op policy that lead to a node by data; no reads of variables."""
    policy, found, left = Policy.default("float16"), set(), [last]
    while left:
        name = left.pop()
        node = view.nodes[name]
        if (
            name in found
            or policy.category(node.op) not in LISTS
            or not view.inputs(name)
            or name.endswith("/read")
        ):
            continue
        found.add(name)
        left += [port.node for port in view.inputs(name)]
    return found


def gradient_exponents(conversion: Any) -> Any:
    """Counts of each exponent field among the float32 gradients of the first step.

    The data are made up; zeros are left out.
    """
    roles = json.loads(audit(conversion, AuditOptions(steps=1)).to_json())["roles"]
    counts = np.sum([np.array(roles[role]["exponents"], np.int64) for role in GRADIENTS], axis=0)
    counts[0] = 0
    return counts


def histogram(counts: Any) -> bytes:
    """A histogram of the gradients' powers of two, unscaled and scaled, beside float16's range."""
    import matplotlib
    from matplotlib.figure import Figure

    powers = np.arange(LOWEST, HIGHEST)
    shares = counts[powers + EXPONENT_BIAS] / counts.sum()
    figure = Figure(figsize=(9, 3))
    axes = figure.subplots()
    zones = {
        "becomes zero": (LOWEST, FLOAT16.bottom - 1, "#ef9a9a"),
        "subnormal": (FLOAT16.bottom - 1, FLOAT16.normal, "#ffe0b2"),
        "normal": (FLOAT16.normal, FLOAT16.top + 1, "#e0f2e1"),
        "overflow": (FLOAT16.top + 1, HIGHEST, "#ef9a9a"),
    }
    for name, (low, high, colour) in zones.items():
        axes.axvspan(low - 0.5, high - 0.5, color=colour, linewidth=0)
        axes.text(
            (low + high - 1) / 2,
            1.02,
            name,
            ha="center",
            transform=axes.get_xaxis_transform(),
            fontsize=9,
        )
    axes.bar(powers, shares, color=GREY, label="gradients")
    axes.step(
        powers + np.log2(SCALE),
        shares,
        where="mid",
        color=BLUE,
        label="times a loss scale of %g" % SCALE,
    )
    axes.set_xlim(LOWEST - 0.5, HIGHEST - 0.5)
    axes.set_xlabel("power of two")
    axes.set_ylabel("share of the values")
    axes.legend(loc="upper left", fontsize=9)
    figure.tight_layout()
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "graphmp"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _quoted(text: str) -> str:
    return '"%s"' % text.replace('"', '\\"')


if __name__ == "__main__":
    sys.exit(main())
