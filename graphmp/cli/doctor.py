"""`graphmp doctor`: the installation, its problems, and their cures."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import asdict
from typing import Any, Iterator, List

from graphmp.doctor import doctor
from graphmp.doctor.doctor import Finding

HELP = "say what is installed, what will not work, and what cures it"
EXAMPLE = "  graphmp doctor\n  graphmp doctor --json"

MARKS = {"ok": "green", "note": "yellow", "fails": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--json", action="store_true", help="print findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the findings; return 1 if a requirement of graphmp won't work."""
    with _waiting():
        findings = doctor.examine()
    if args.json:
        print(json.dumps(as_json(findings), indent=2))
    elif sys.stdout.isatty():
        _show(findings)
    else:
        print("\n".join(lines(findings)))
    return 0 if all(finding.ok for finding in findings) else 1


def as_json(findings: List[Finding]) -> Any:
    """The findings for machines."""
    return {
        "ok": all(finding.ok for finding in findings),
        "findings": [asdict(finding) for finding in findings],
        "next": doctor.next_step(findings),
    }


def mark(finding: Finding) -> str:
    """One word: ok, note (a tolerable limit), or fail."""
    if not finding.ok:
        return "fails"
    return "note" if finding.cure else "ok"


def lines(findings: List[Finding]) -> List[str]:
    """The findings as plain text, each with its cure below."""
    result = []
    for finding in findings:
        result.append("%-15s %-6s %s" % (finding.subject, mark(finding), finding.found))
        if finding.cure:
            result.append("%-15s %-6s %s" % ("", "cure", finding.cure))
    return result + ["%-15s %s" % ("next", doctor.next_step(findings))]


def _show(findings: List[Finding]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "", "found", "cure"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(
            Text(finding.subject),
            Text(mark(finding), style=MARKS[mark(finding)]),
            Text(finding.found),
            Text(finding.cure),
        )
    console = Console()
    console.print(table)
    console.print(Text("next  %s" % doctor.next_step(findings), style="bold"))


@contextlib.contextmanager
def _waiting() -> Iterator[None]:
    """An animated line while TensorFlow is imported, only on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("importing TensorFlow"):
        yield
