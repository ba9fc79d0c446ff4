"""`--help` of a command.

Everyday flags first, the others in titled groups, within the terminal's width.
"""

from __future__ import annotations

import argparse
import copy
import re
import shutil
import textwrap
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

EVERYDAY, OTHER = "everyday flags", "other flags"
_WIDEST = 100


class FlagGroup(NamedTuple):
    """Flags in a group, by their `dest`."""

    title: str
    names: Tuple[str, ...]


GROUPS = (
    FlagGroup("dtype, engine, fallbacks", ("compute_dtype", "engine", "engine_strict", "on_error")),
    FlagGroup(
        "what stays float32",
        ("keep_float32", "force_compute", "op_policy", "ranges", "costs", "fetch"),
    ),
    FlagGroup(
        "loss scale and gradients",
        (
            "loss_scale",
            "loss_scale_initial",
            "loss_scale_growth_interval",
            "loss_scale_growth_factor",
            "loss_scale_backoff_factor",
            "loss_scale_min",
            "clip_norm",
            "count_skipped_steps",
            "debug_overflow",
        ),
    ),
    FlagGroup(
        "training in a graph that is built",
        ("loss", "train_op", "gradient_scope", "allreduce_half"),
    ),
    FlagGroup("tuning", ("tune", "tune_file")),
    FlagGroup(
        "source and inputs",
        (
            "module",
            "children",
            "tag",
            "python",
            "input",
            "arg",
            "legacy_imports",
            "script_timeout",
            "checkpoint",
            "data",
            "random_data",
            "seed",
        ),
    ),
    FlagGroup(
        "how it is measured",
        (
            "batch_size",
            "batch_sizes",
            "seconds",
            "steps",
            "warmup",
            "rounds",
            "memory_limit",
            "step_timeout",
            "clock",
            "measure",
            "arithmetic",
            "tolerance",
        ),
    ),
    FlagGroup(
        "what is printed and written",
        (
            "policy",
            "cost",
            "memory",
            "wire",
            "verify_tensor_cores",
            "format",
            "output",
            "report",
            "html",
            "plot",
            "fix",
            "json",
        ),
    ),
    FlagGroup("for CI", ("check", "verify")),
    FlagGroup("help and messages", ("verbosity", "help", "helpfull", "flagfile", "undefok")),
)
# Arguments of flags whose names differ from the flag's own.
_TAKES = {
    "engine": "ENGINE",
    "compute_dtype": "DTYPE",
    "loss_scale": "SCALE",
    "keep_float32": "REGEX",
    "force_compute": "REGEX",
    "op_policy": "FILE",
    "ranges": "FILE",
    "costs": "FILE",
    "fetch": "TENSOR",
    "loss": "TENSOR",
    "train_op": "OP",
    "gradient_scope": "SCOPE",
}


def grouped(actions: Iterable[Any], everyday: Sequence[str]) -> List[Tuple[str, List[Any]]]:
    """Titles and flags in the order of display, without empty groups.

    Args:
        actions: argparse's actions with option strings, or absl's flags.
        everyday: names of the first ones, in this order.
    """
    left: Dict[str, Any] = {_name(action): action for action in actions}
    found = []
    for title, names in (FlagGroup(EVERYDAY, tuple(everyday)), *GROUPS):
        members = [left.pop(name) for name in names if name in left]
        if members:
            found.append((title, members))
    return found + ([(OTHER, list(left.values()))] if left else [])


def help_text(parser: Any, everyday: Sequence[str]) -> str:
    """The whole of `--help`."""
    width = min(shutil.get_terminal_size().columns, _WIDEST) - 2
    formatter = argparse.HelpFormatter(parser.prog, max_help_position=26, width=width)
    actions = [action for action in parser._actions if action.help is not argparse.SUPPRESS]
    positional = [action for action in actions if not action.option_strings]
    formatter.add_usage(" ".join(["%(prog)s [flags]", *map(_written, positional)]), [], [])
    formatter.add_text(parser.description)
    for title, members in [
        ("arguments", positional),
        *grouped((a for a in actions if a.option_strings), everyday),
    ]:
        formatter.start_section(title)
        formatter.add_arguments(map(_plain, members))
        formatter.end_section()
    return formatter.format_help() + "\n" + "\n".join(_epilog(parser.epilog, width)) + "\n"


def meaning(text: str) -> str:
    """The help of a flag without absl's remark that a repeatable flag may be repeated."""
    return text.partition("\n")[0].rstrip(";").partition("; repeat this option")[0]


def _plain(action: Any) -> Any:
    """A copy of an action that is formatted with one argument word, and its meaning."""
    plain = copy.copy(action)
    plain.help = meaning(action.help)
    plain.nargs = (
        None if action.nargs == argparse.REMAINDER and action.option_strings else action.nargs
    )
    if (
        action.dest == argparse.SUPPRESS and action.nargs != 0
    ):  # absl's: the argument is named like the flag, in capitals
        plain.metavar = _TAKES.get(_name(action), "NUMBER")
    return plain


def _name(flag: Any) -> str:
    """A flag's own name; `-m` is listed by its meaning."""
    if not isinstance(flag, argparse.Action):
        return str(flag.name)
    return next(
        (option[2:] for option in flag.option_strings if option.startswith("--")), flag.dest
    )


def _written(action: Any) -> str:
    name = action.metavar or action.dest
    return "[%s]" % name if action.nargs == "?" else str(name)


def _epilog(text: str, width: int) -> Iterator[str]:
    """Examples, with continuation lines after a backslash, and paragraphs."""
    examples, _, notes = text.partition("\n\n")
    for line in examples.splitlines():
        whole = re.sub(r"(--\w+) (?=[^- ])", r"\1\0", line)  # a flag and its value stay together
        parts = textwrap.wrap(
            whole,
            width - 2,
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield " \\\n".join(parts).replace("\0", " ")
    for paragraph in notes.split("\n\n") if notes else ():
        yield ""
        yield from textwrap.wrap(" ".join(paragraph.split()), width, break_on_hyphens=False)
