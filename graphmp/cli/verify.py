"""`graphmp verify`: a proof that a converted graph computes the same as its original."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import TYPE_CHECKING, Any, Dict, List

from absl import flags

from graphmp.cli.flagfiles import expanded
from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.reports import report_beside
from graphmp.cli.steps import STEPS, add_steps, options_of_steps
from graphmp.cli.tables import Line, show
from graphmp.cli.terminal import progress
from graphmp.cli.together import refuse_idle
from graphmp.config import Config
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import GraphmpError
from graphmp.files.folder import refuse_half_replaced
from graphmp.files.reading import read_text
from graphmp.wording import labelled, shell_word

if TYPE_CHECKING:
    from graphmp.verify.proof import Claim, Proof

HELP = "prove that a converted graph computes what its original does"
EXAMPLE = """  graphmp verify model_graphmp/original.meta model_graphmp/converted.meta
  graphmp verify original.meta converted.meta --expect=flags.txt --json
  graphmp verify original.meta converted.meta --random_data
  graphmp verify original.meta converted.meta --data batches.npz --steps 10

The conversion's report and the names of added nodes are not trusted: each added node is
recognised by its computation and replaced by its meaning, and the rest must equal the original.
With data, as for `graphmp audit`, both graphs are also run. Steps in float32 give every variable
the same bits as in the original. With infinity in one gradient after another, nothing is written
that must not be, and the next step trains. Half precision agrees within the tolerance of an
audit. Exit status: 0 if every claim is proved, 1 if one failed or could not be proved, 2 for
trouble."""
SCHEMA = "graphmp.verify/1"
_MOST_NODES = 5
_OF_RUNS = ("steps", "batch_size", "seed", "checkpoint", "arithmetic", "tolerance")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two graphs, the expected flags, and the output format."""
    parser.add_argument("original", metavar="ORIGINAL", help="the graph before the conversion")
    parser.add_argument("converted", metavar="CONVERTED", help="the graph after it")
    parser.add_argument(
        "--expect",
        metavar="FILE",
        help=(
            "file of flags of graphmp convert, one a line, that it must match (default: its own"
            " claim)"
        ),
    )
    parser.add_argument(
        "--devices",
        metavar="CPU,GPU",
        default="CPU,GPU",
        help="devices of nodes without one: half precision needs kernels there (default: both)",
    )
    add_steps(parser, required=False, steps=STEPS, note=" where data is given")
    parser.add_argument("--json", action="store_true", help="print it for machines")


def run(args: argparse.Namespace) -> int:
    """Prove, and print the claims."""
    expected = _expected(args.expect) if args.expect else None
    devices = args.devices.upper().split(",")
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.executed.check import proof_with_steps
        from graphmp.gate.reading import read_graph
        from graphmp.policy.half_kernels import DEVICES
        from graphmp.verify.prove import prove

    if not set(devices) <= set(DEVICES):
        raise GraphmpError(
            "GMP001",
            "--devices=%s: accepted are %s, with commas" % (args.devices, " and ".join(DEVICES)),
        )
    options = options_of_steps(args)
    runs = args.random_data or bool(args.data)
    if not runs:
        refuse_idle(args, _OF_RUNS, "with --data or --random_data")
    found = report_beside(args.converted) if runs else None
    report = found if found and "losses" in found else None
    with progress(7 if runs else 3) as begin:
        begin("reading %s" % args.original)
        original = read_graph(args.original)
        begin("reading %s" % args.converted)
        converted = read_graph(args.converted)
        if runs:
            proof = proof_with_steps(
                original,
                converted,
                options,
                args.tolerance,
                report,
                begin,
                expected,
                devices,
            )
        else:
            begin("proving")
            proof = prove(original, converted, expected, devices)
    if args.json:
        sys.stdout.write(
            json.dumps(as_json(proof, args.original, args.converted), indent=1, sort_keys=True)
            + "\n"
        )
    else:
        show([*claim_lines(proof), ("next", labelled("next", _next(proof, args)))])
    return 0 if proof.ok else 1


def _expected(path: str) -> Dict[str, Any]:
    """The flags in a file.

    Raises GMP003 if it can't be read, GMP001 for an unknown flag of `graphmp convert`.
    """
    refuse_half_replaced(pathlib.Path(path))
    lines = [line.strip() for line in read_text(path).split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    values = conversion_flags()
    try:
        left = values(["graphmp", *expanded(lines)])[1:]
    except flags.Error as error:
        raise GraphmpError(
            "GMP001",
            "--expect=%s: %s; accepted are flags of graphmp convert, one a line" % (path, error),
        ) from None
    if left:
        raise GraphmpError(
            "GMP001",
            "--expect=%s: %r is no flag; accepted are flags of graphmp convert, one a line"
            % (path, left[0]),
        )
    return Config.make(**options_of(values)).as_flags()


def claim_lines(proof: Proof) -> List[Line]:
    """The claims with their verdicts, and the conclusion."""
    found: List[Line] = []
    for claim in proof.claims:
        found.append((claim.verdict, "%-14s %s: %s" % (claim.verdict, claim.name, claim.text)))
        others = claim.nodes[1:_MOST_NODES] if claim in _open(proof) else ()
        found += [("row", "%-14s   %s" % ("", name)) for name in others]
    found.append(("blank", ""))
    verdict = (
        "every claim is proved"
        if proof.ok
        else "%s: look at these first" % ", ".join(claim.name for claim in _open(proof))
    )
    found.append(("passed" if proof.ok else "failed", labelled("verify", verdict)))
    return found


def _open(proof: Proof) -> List[Claim]:
    return [claim for claim in proof.claims if claim.verdict not in ("proved", "not applicable")]


def _next(proof: Proof, args: argparse.Namespace) -> str:
    node = next((name for claim in _open(proof) for name in claim.nodes), None)
    graphs = "%s %s" % (shell_word(args.original), shell_word(args.converted))
    if node is not None:
        return "graphmp diff %s --format=dot --node=%s" % (graphs, shell_word(node))
    return "graphmp diff %s --format=html -o diff.html" % graphs


def as_json(proof: Proof, original: str, converted: str) -> Dict[str, Any]:
    """The claims for machines, with the names of the two files."""
    claims = [dict(claim._asdict(), nodes=list(claim.nodes)) for claim in proof.claims]
    return {
        "schema": SCHEMA,
        "original": original,
        "converted": converted,
        "proved": proof.ok,
        "claims": claims,
        "parameters": proof.parameters,
    }
