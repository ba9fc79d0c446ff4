#!/usr/bin/env python3
"""Hostile inputs for graphmp, each in a fork with limits, and what came of them.

usage: fuzz.py [--cases=N] [--seed=N] [--family=NAME] [--repeat=FAMILY:NUMBER [--keep=FOLDER]]

    python tools/fuzz.py --cases=300
    python tools/fuzz.py --cases=500 --family=signals
    python tools/fuzz.py --repeat=structure:17 --keep=/tmp/case

A case may take 10 s of processor time and 1 GB of memory. It must end in success or in one line
on stderr, without traceback or signal, with nothing left behind, and with output folders that hold
the old files or the new ones. A success is wrong if TensorFlow refuses the conversion of a graph
that it takes, if a file was taken that its schema refuses, or if something was run or replaced that
must not be. Prints a table; exit status 1 if any case failed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import pathlib
import sys
import time
from typing import Dict, List, Optional, Sequence, Tuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

importlib.import_module("tests.support.started")  # TensorFlow, once for all forks

from fuzzing import (  # noqa: E402
    of_data,
    of_files,
    of_graphs,
    of_plausible,
    of_programs,
    of_steps,
    of_texts,
    of_writes,
    seeds,
)
from fuzzing.runner import BAD, BROKEN, Family, Verdict, run_case, table  # noqa: E402

# Each family with its share of the cases.
FAMILIES: Dict[str, Tuple[Family, int]] = {
    "bytes": (of_graphs.of_bytes, 4),
    "structure": (of_graphs.of_structure, 6),
    "plausible": (of_plausible.of_plausible, 5),
    "reports": (of_texts.of_reports, 3),
    "policies": (of_texts.of_policies, 2),
    "data": (of_data.of_data, 2),
    "measured": (of_data.of_measured, 1),
    "programs": (of_programs.of_programs, 2),
    "scripts": (of_programs.of_scripts, 1),
    "steps": (of_steps.of_steps, 1),
    "kinds": (of_files.of_kinds, 3),
    "flagfiles": (of_texts.of_flagfiles, 2),
    "faults": (of_writes.of_faults, 2),
    "signals": (of_writes.of_signals, 2),
}
_MOST_SHOWN = 40
_USED = (  # imported by commands when they run: forks shouldn't each do it
    "graphmp.audit.run",
    "graphmp.compare.api",
    "graphmp.compare.render.text",
    "graphmp.compare.review.words",
    "graphmp.conversion.convert",
    "graphmp.executed.check",
    "graphmp.inspect.explanation",
    "graphmp.inspect.overview",
    "graphmp.inspect.cost",
    "graphmp.inspect.memory.memory",
    "graphmp.inspect.wire",
    "graphmp.inspect.recipe_flags",
)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the cases and print the table."""
    args = _arguments(argv)
    for name in _USED:
        importlib.import_module(name)
    seeds.conversions()
    seeds.trainings()
    of_data.bomb()
    gc.freeze()
    if args.repeat:
        family, _, number = args.repeat.partition(":")
        verdict = run_case(FAMILIES[family][0], family, args.seed, int(number), args.keep)
        _show(verdict, family, args.seed, int(number))
        return int(verdict.kind in BAD or verdict.kind == BROKEN)
    counts: Dict[str, Dict[str, int]] = {}
    failed: List[str] = []
    began, slowest = time.monotonic(), 0.0
    for name, number in _planned(args):
        verdict = run_case(FAMILIES[name][0], name, args.seed, number)
        row = counts.setdefault(name, {})
        row[verdict.kind] = row.get(verdict.kind, 0) + 1
        slowest = max(slowest, verdict.seconds)
        if verdict.kind in BAD or verdict.kind == BROKEN:
            failed.append(name)
            if len(failed) <= _MOST_SHOWN:
                _show(verdict, name, args.seed, number)
    print("\n".join(table(counts)))
    total = sum(sum(row.values()) for row in counts.values())
    print(
        "%s: %d cases, %d failed; seed %d; %.0f s, the slowest case %.1f s of processor time"
        % (
            "FAILED" if failed else "ok",
            total,
            len(failed),
            args.seed,
            time.monotonic() - began,
            slowest,
        )
    )
    return int(bool(failed))


def _arguments(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="hostile inputs for graphmp, in forks with limits")
    parser.add_argument("--cases", type=int, default=300, metavar="N", help="cases of all families")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="other cases for another")
    parser.add_argument(
        "--family", default="", choices=["", *FAMILIES], metavar="NAME", help=", ".join(FAMILIES)
    )
    parser.add_argument(
        "--repeat", default="", metavar="FAMILY:NUMBER", help="run one case, with --seed"
    )
    parser.add_argument(
        "--keep", default="", metavar="FOLDER", help="leave the case of --repeat here"
    )
    return parser.parse_args(argv)


def _planned(args: argparse.Namespace) -> List[Tuple[str, int]]:
    """The cases of all families in turns, by their shares: (family, number)."""
    if args.family:
        return [(args.family, number) for number in range(args.cases)]
    turn = [name for name, (_, share) in FAMILIES.items() for _ in range(share)]
    counts = dict.fromkeys(FAMILIES, 0)
    planned = []
    for number in range(args.cases):
        name = turn[number % len(turn)]
        planned.append((name, counts[name]))
        counts[name] += 1
    return planned


def _show(verdict: Verdict, family: str, seed: int, number: int) -> None:
    print("%-14s --seed=%d --repeat=%s:%d" % (verdict.kind, seed, family, number))
    print("    graphmp %s" % verdict.argv[:300])
    print("    %s" % ascii(verdict.words)[:400], flush=True)


if __name__ == "__main__":
    sys.exit(main())
