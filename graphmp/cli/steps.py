"""The data and steps for running a graph: flags, and the options made from them."""

from __future__ import annotations

import argparse

from graphmp.audit.options import ARITHMETIC, AuditOptions
from graphmp.cli.together import refuse_idle
from graphmp.errors import GraphmpError
from graphmp.time_limit import LONGEST, SECONDS

STEPS = 5  # of a verification
TOLERANCE = 0.1
MADE_UP = "with made-up batches"


def add_steps(parser: argparse.ArgumentParser, required: bool, steps: int, note: str = "") -> None:
    """Add the flags.

    Args:
        parser: of the command.
        required: whether data must be given.
        steps: the default number of steps.
        note: a remark on steps.
    """
    data = parser.add_mutually_exclusive_group(required=required)
    data.add_argument(
        "--data", default="", metavar="FEEDS", help="batches: an .npz file, or file.py:FUNCTION"
    )
    data.add_argument(
        "--random_data",
        action="store_true",
        help="made-up batches that suit each placeholder's use",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=steps,
        metavar="N",
        help="training steps (default %d)%s" % (steps, note),
    )
    add_batch_size(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random data")
    parser.add_argument(
        "--checkpoint",
        default="",
        metavar="PREFIX",
        help="start from a checkpoint, not from the initial values",
    )
    parser.add_argument(
        "--arithmetic",
        default="auto",
        choices=ARITHMETIC,
        help=(
            "half precision by this machine's kernels, or simulated: computed in float32 and"
            " rounded (auto: simulated without a GPU)"
        ),
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="X",
        help="largest relative error of a weight gradient (default %g); of losses a tenth of it"
        % TOLERANCE,
    )
    add_step_timeout(parser)


def add_batch_size(parser: argparse.ArgumentParser) -> None:
    """Add the flag for dimensions of batches that a graph leaves open."""
    parser.add_argument(
        "--batch_size",
        type=int,
        default=8,
        metavar="N",
        help="where the graph leaves it open (default 8)",
    )


def add_step_timeout(parser: argparse.ArgumentParser) -> None:
    """Add the flag that limits each run of a graph."""
    parser.add_argument(
        "--step_timeout",
        type=_seconds,
        default=SECONDS,
        metavar="SECONDS",
        help="time for each run of a graph and each batch of --data, which fails when it is over"
        " (default %.0f)" % SECONDS,
    )


def _seconds(text: str) -> float:
    """The value of --step_timeout.

    Raises:
        GraphmpError: GMP002.
    """
    seconds = float(text)
    if not 0.001 <= seconds <= LONGEST:
        found = "--step_timeout=%s: accepted are seconds from 0.001 to %d" % (text, LONGEST)
        raise GraphmpError("GMP002", found)
    return seconds


def options_of_steps(args: argparse.Namespace) -> AuditOptions:
    """The options made from the flags.

    Raises:
        GraphmpError: GMP002 for a number that isn't accepted.
    """
    if args.steps < 1 or args.batch_size < 1 or not args.tolerance > 0:
        raise GraphmpError(
            "GMP002",
            "--steps, --batch_size and --tolerance: found %d, %d, %g; accepted are numbers above"
            " zero" % (args.steps, args.batch_size, args.tolerance),
        )
    if args.data:
        refuse_idle(args, ["seed"], MADE_UP)
    return AuditOptions(
        args.data, args.steps, args.batch_size, args.seed, args.checkpoint, args.arithmetic
    )
