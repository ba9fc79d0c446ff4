"""The `graphmp` command."""

from __future__ import annotations

import functools
import os
import signal
import sys
import traceback
from typing import List, Optional

from absl import app, flags

from graphmp.cli import audit, bench, convert, diff, doctor, explain, inspect, run, tune, verify
from graphmp.cli.parser import build_parser, split_script_arguments
from graphmp.cli.sources import takes_python
from graphmp.cli.supervised import supervise
from graphmp.errors import BAD_INPUT, GraphmpError
from graphmp.glass import behind_glass
from graphmp.time_limit import SECONDS, limited_runs
from graphmp.version import __version__

COMMANDS = {
    "audit": audit,
    "bench": bench,
    "convert": convert,
    "diff": diff,
    "doctor": doctor,
    "explain": explain,
    "inspect": inspect,
    "run": run,
    "tune": tune,
    "verify": verify,
}


def run_command(argv: List[str], supervised: bool = False) -> int:
    """Run one command.

    Args:
        argv: the command line; argv[0] is the program's name.
        supervised: whether a parent process says how this one ended.

    Returns:
        The exit status.
    """
    own, script_arguments = (
        (argv[1:], []) if argv[1:2] == ["run"] else split_script_arguments(argv[1:])
    )  # run's `--` belongs to the script
    verbose = False
    try:
        parser = build_parser(COMMANDS, __version__)
        args = parser.parse_args(own)
        if not args.command:
            parser.print_help()
            return BAD_INPUT
        verbose = args.verbosity > 0
        args.script_arguments = script_arguments
        if script_arguments and not takes_python(args):
            text = "%s: what stands behind `--` is a Python file's command line; there is none here"
            raise GraphmpError("GMP001", text % " ".join(["--", *script_arguments]))
        if args.command == "run":  # the script's sessions have threads
            return int(args.run(args))
        with behind_glass(), limited_runs(getattr(args, "step_timeout", SECONDS), supervised):
            return int(args.run(args))
    except GraphmpError as error:
        if verbose:
            traceback.print_exc()
        print("graphmp: error %s" % error, file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        sys.stderr.close()
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if verbose:
            traceback.print_exc()
        unexpected = _unexpected(error)
        print("graphmp: error %s" % unexpected, file=sys.stderr)
        # of diff, 1 means a difference
        return BAD_INPUT if own[:1] == ["diff"] else unexpected.exit_status


def _unexpected(error: Exception) -> GraphmpError:
    """The error for an exception that nothing expected, with the place that raised it."""
    if isinstance(error, FileNotFoundError) and not _has_folder():
        text = "the working folder is not there any more: run this again in one that is"
        return GraphmpError("GMP003", text)
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = "%s: %s (%s:%s); --verbosity=1 shows where"
    name = "/".join(place.filename.split("/")[-2:])
    return GraphmpError("GMP099", text % (type(error).__name__, error, name, place.lineno))


def _has_folder() -> bool:
    """Whether the working folder is still there: a script may have removed it."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def main(argv: Optional[List[str]] = None) -> None:
    """Console entry point. A script of `graphmp run` has the process to itself."""
    argv = argv or sys.argv
    supervised = argv[1:2] != ["run"] and supervise(" ".join(["graphmp", *argv[1:2]]))
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    command = functools.partial(run_command, supervised=supervised)
    app.run(command, argv=argv, flags_parser=_left_to_the_command)


def _end(number: int, frame: object) -> None:
    """End as after an error, so that nothing unfinished is left; the status is a shell's."""
    sys.exit(128 + number)


def _left_to_the_command(argv: List[str]) -> List[str]:
    flags.FLAGS.mark_as_parsed()  # required by absl; each command has flags of its own
    return argv


if __name__ == "__main__":
    main()
