"""Argument parsing: absl flags inside argparse subcommands, and one-line errors."""

from __future__ import annotations

import argparse
import sys
from types import ModuleType
from typing import Any, Dict, List, Optional, Sequence, Tuple

from absl.flags import argparse_flags

from graphmp.cli.flagfiles import FLAG, expanded
from graphmp.cli.help import help_text
from graphmp.errors import GraphmpError


class Parser(argparse_flags.ArgumentParser):
    """An argparse parser that raises one-line errors instead of printing usage and exiting.

    Attributes:
        everyday: the first flags in `--help`; without any, `--help` is argparse's own.
    """

    everyday: Tuple[str, ...] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Also replace flagfiles: what stands later wins, and their lines stand where they do.

        A script, or a module, and what stands behind it are handed on as they are.
        """
        if self._inherited_absl_flags is None or args is None:
            return super().parse_known_args(args, namespace)
        at = self._script_at(args)
        found, rest = super().parse_known_args(expanded(args[:at]), namespace)
        if args[at:]:
            self._hand_on(args[at:], found)
        return found, rest

    def _script_at(self, args: Sequence[str]) -> int:
        """Where a script with its own arguments begins, or the flag that takes a module."""
        if all(action.nargs != argparse.REMAINDER for action in self._actions):
            return len(args)
        place = 0
        while place < len(args):
            word, action = args[place], self._action(args[place])
            ends = action is not None and action.nargs == argparse.REMAINDER
            if ends or word == "--" or not word.startswith("-"):
                return place
            has_value = "=" not in word and (
                word.lstrip("-") == FLAG[2:] or (action is not None and action.nargs is None)
            )
            place += 1 + has_value
        return len(args)

    def _hand_on(self, args: Sequence[str], namespace: argparse.Namespace) -> None:
        """Store a script with its arguments, or those of the flag that takes a module."""
        action, own = self._action(args[0]), list(args)
        if action is None:
            (action,) = (
                each
                for each in self._actions
                if each.nargs == argparse.REMAINDER and not each.option_strings
            )
        else:
            own = [each for each in [args[0][2:]] if each] + own[1:]  # `-mMODULE` is accepted too
        setattr(namespace, action.dest, own)

    def _action(self, word: str) -> Optional[argparse.Action]:
        """The action of a flag, which may be abbreviated, or be one letter with its value."""
        named = self._option_string_actions
        name = word.partition("=")[0]
        if name in named or not word.startswith("--"):
            return named.get(name, named.get(word[:2]))
        found = {id(each): each for flag, each in named.items() if flag.startswith(name)}
        return next(iter(found.values())) if len(found) == 1 else None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an empty value too, as of a shell's variable that isn't set.

        What has a default of its own says itself what it accepts.

        Raises:
            GraphmpError: GMP002.
        """
        super()._check_value(action, value)
        if value == "" and action.default in (None, "", [], argparse.SUPPRESS):
            names = action.option_strings or [str(action.metavar)]
            text = "%s: it is empty; give a value" % max(names, key=len)
            raise GraphmpError("GMP002", text + ("" if action.required else ", or leave it out"))

    def error(self, message: str) -> Any:
        raise GraphmpError("GMP001", "%s: %s; see `%s --help`" % (self.prog, message, self.prog))

    def format_help(self) -> str:
        return help_text(self, self.everyday) if self.everyday else super().format_help()


def split_script_arguments(argv: List[str]) -> Tuple[List[str], List[str]]:
    """Split at the first `--`: graphmp's arguments, and the script's."""
    if "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def build_parser(commands: Dict[str, ModuleType], version: str) -> Parser:
    """One subparser for each command, with its own absl flags (so that all take `--flagfile`)."""
    parser = Parser(
        prog="graphmp",
        inherited_absl_flags=None,
        description="Turns TensorFlow 1 training graphs into mixed-precision ones.",
        epilog="graphmp COMMAND --help shows a command's flags and an example.",
    )
    parser.add_argument("--version", action="version", version="graphmp %s" % version)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in sorted(commands.items()):
        subparser = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.HELP,
            epilog="example:\n" + module.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            inherited_absl_flags=_fresh(getattr(module, "FLAGS", None)),
        )
        subparser.add_argument(
            "--verbosity",
            type=int,
            default=0,
            metavar="N",
            help="1 shows tracebacks and what TensorFlow and the script print",
        )
        module.add_arguments(subparser)
        subparser.everyday = getattr(module, "EVERYDAY", ())
        subparser.set_defaults(run=module.run, default=subparser.get_default)
    return parser


def _fresh(flags: Optional[Any]) -> Optional[Any]:
    """Flags with their defaults, all shown in --help.

    argparse_flags only lists those of the main module.
    """
    if flags is not None:
        for name in flags:
            flags[name].unparse()
            flags.register_key_flag_for_module(sys.argv[0], flags[name])
    return flags
