#!/usr/bin/env python3
"""Write the reference pages of docs/ from the code.

usage: reference.py [-o docs] [--check]

    python tools/reference.py
    python tools/reference.py --check     write nothing; exit status 1 if a page is out of date

flags.md comes from the parsers of the commands, errors.md from the table of codes.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import textwrap
from types import ModuleType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.cli import help as helps
from graphmp.cli.main import COMMANDS
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import BAD_INPUT, CANNOT_CONVERT, CODES

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
WIDTH = 150
MADE = "<!-- Made by `python tools/reference.py`; change the code, not this page. -->"
FLAGS = """\
Every flag of every command, as `graphmp COMMAND --help` lists them. `graphmp --version` prints \
the version.

All commands take `--help` and `--verbosity=N`: from 1 on it shows tracebacks, and what TensorFlow \
and a script print. Commands that convert also take
`--flagfile=FILE`: a file with a flag a line, as the `flags.txt` that `graphmp convert` writes. \
Flags are written `--flag=value` or `--flag value`. What stands later on the command line wins, \
and the lines of a flagfile stand where its flag does: `--flagfile=F -o out` writes to `out`, \
`-o out --flagfile=F` to the `--output` of `F`, if it has one. Values of repeatable flags add up.
"""
CONVERSION = """\
They are the same on {commands}. In Python they are the arguments of `graphmp.convert`,
`graphmp.Session` and `graphmp.mixed_precision`, under the same names; a flag that is repeatable
takes a list there.
"""
ERRORS = """\
graphmp says what is wrong in one line, as `graphmp: error GMP003: ...`, with the file or node, \
what was found, what is accepted and what to do.
In Python that is a `graphmp.GraphmpError` with `code`, `message` and `exit_status`. A code never \
changes its meaning. `graphmp explain GMP012`
prints a row of this page. `--verbosity=1` adds the traceback.
"""
_WRITTEN = (
    "Nothing is written, except by `convert --verify`, which runs the graphs after it has written"
    " the files."
)
GROUPS = (
    (BAD_INPUT, "Bad input", "Exit status 2. " + _WRITTEN),
    (
        CANNOT_CONVERT,
        "What can't be converted",
        "Exit status 1; 2 from `graphmp diff`. " + _WRITTEN,
    ),
    (0, "Warnings", "The conversion is done. The summary and `warnings` of report.json have them."),
)


def main(argv: Optional[List[str]] = None) -> int:
    """Write the pages, or compare them. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-o",
        "--output",
        type=pathlib.Path,
        default=DOCS,
        metavar="FOLDER",
        help="output folder (default: docs)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit status 1 if a page is out of date",
    )
    args = parser.parse_args(argv)
    stale = [name for name, page in PAGES.items() if not _holds(args.output / name, page())]
    if args.check:
        print(
            "stale: %s; run python tools/reference.py" % ", ".join(stale)
            if stale
            else "the reference is up to date"
        )
        return int(bool(stale))
    with quiet_stderr():  # TensorFlow writes to stderr when imported
        from graphmp.files.single import write_atomic
    for name in stale:
        write_atomic(args.output / name, PAGES[name]().encode("utf-8"))
        print("wrote %s" % (args.output / name))
    return 0


def _holds(path: pathlib.Path, page: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == page


def flags_page() -> str:
    """The text of flags.md."""
    converting = [name for name in sorted(COMMANDS) if hasattr(COMMANDS[name], "FLAGS")]
    lines = ["# Flags", "", MADE, "", *FLAGS.splitlines(), "", "## Conversion flags", ""]
    lines += [
        *_wrapped(CONVERSION.format(commands=_joined("`%s`" % name for name in converting))),
        "",
    ]
    for title, flags in conversion_flags(COMMANDS[converting[0]]):
        lines += [
            "### %s" % title.capitalize(),
            "",
            *table(("flag", "default", "meaning"), map(conversion_flag, flags)),
            "",
        ]
    lines.pop()
    for name in sorted(COMMANDS):
        lines += ["", *command_section(name, COMMANDS[name])]
    return "\n".join(lines) + "\n"


def conversion_flags(command: ModuleType) -> List[Tuple[str, List[Any]]]:
    """The absl flags of a command, in the groups of `--help`.

    The everyday flags of `graphmp convert` come first.
    """
    flags = [
        command.FLAGS[name] for name in command.FLAGS if name not in ("flagfile", "undefok")
    ]  # absl's own
    return helps.grouped(flags, COMMANDS["convert"].EVERYDAY)


def conversion_flag(flag: Any) -> Tuple[str, str, str]:
    """The syntax, default and meaning of a conversion flag."""
    return (
        "`--%s`" % flag.name if flag.boolean else "`--%s=`" % flag.name,
        _default(flag.default),
        helps.meaning(flag.help),
    )


def command_section(name: str, command: ModuleType) -> List[str]:
    """The section of one command: its description, examples, and arguments.

    Conversion flags are left out.
    """
    examples, _, notes = command.EXAMPLE.partition("\n\n")
    lines = [
        "## graphmp %s" % name,
        "",
        sentence(command.HELP),
        "",
        "```",
        *textwrap.dedent(examples).splitlines(),
        "```",
        "",
    ]
    if notes:
        lines += [*_wrapped(notes), ""]
    if hasattr(command, "FLAGS"):
        everyday = _joined("`--%s`" % name for name in command.EVERYDAY)
        lines += [
            "Its everyday flags are %s." % everyday,
            "It takes the [conversion flags](#conversion-flags), and:",
            "",
        ]
    return [*lines, *table(("argument", "default", "meaning"), map(argument, in_groups(command)))]


def in_groups(command: ModuleType) -> List[Any]:
    """The arguments of a command in the order of `--help`."""
    found = list(actions(command))
    if not hasattr(command, "EVERYDAY"):
        return found
    groups = helps.grouped((action for action in found if action.option_strings), command.EVERYDAY)
    return [action for action in found if not action.option_strings] + [
        action for _, members in groups for action in members
    ]


def actions(command: ModuleType) -> Iterator[Any]:
    """The argparse actions of a command in order, without the conversion flags."""
    parser = argparse.ArgumentParser(add_help=False)
    command.add_arguments(parser)
    yield from parser._actions


def argument(action: Any) -> Tuple[str, str, str]:
    """The syntax, default and meaning of an argument."""
    shown = "|".join(action.choices) if action.choices else action.metavar or action.dest.upper()
    if not action.option_strings:
        written = action.metavar
    elif action.nargs == 0:
        written = ", ".join(action.option_strings)
    else:
        written = "%s %s" % (", ".join(action.option_strings), shown)
    default = "" if action.nargs == 0 else _default(action.default)
    return "`%s`" % written, default, action.help.replace("%%", "%")


def _default(value: Any) -> str:
    return "" if value is None or value is False or value in ("", []) else "`%s`" % value


def errors_page() -> str:
    """The text of errors.md."""
    lines = ["# Errors and warnings", "", MADE, "", *ERRORS.splitlines()]
    for status, title, text in GROUPS:
        rows = [
            ("`%s`" % name, code.meaning, code.cure)
            for name, code in sorted(CODES.items())
            if code.exit_status == status
        ]
        lines += [
            "",
            "## %s" % title,
            "",
            text,
            "",
            *table(("code", "meaning", "what to do"), rows),
        ]
    return "\n".join(lines) + "\n"


def sentence(text: str) -> str:
    """A line of help as a sentence."""
    return text[0].upper() + text[1:] + "."


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> List[str]:
    """A Markdown table."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [
        "| %s |" % " | ".join(headings),
        "|%s" % ("---|" * len(headings)),
        *("| %s |" % " | ".join(row) for row in cells),
    ]


def _joined(words: Iterable[str]) -> str:
    *most, last = words
    return "%s and %s" % (", ".join(most), last)


def _wrapped(text: str) -> List[str]:
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False
    )


PAGES: Dict[str, Callable[[], str]] = {"flags.md": flags_page, "errors.md": errors_page}


if __name__ == "__main__":
    sys.exit(main())
