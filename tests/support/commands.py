"""The command, run in the test's process."""

from __future__ import annotations

import io

from graphmp.cli.main import run_command


def graphmp(capfd, *arguments):
    """Run the command. Return exit status, stdout and stderr."""
    status = run_command(["graphmp"] + [str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return status, out, err


def refused(capfd, *arguments):
    """Run a command that must fail. Return exit status and its one line."""
    status, out, err = graphmp(capfd, *arguments)
    assert out == "" and len(err.splitlines()) == 1 and err.startswith("graphmp: error GMP"), (
        out,
        err,
    )
    return status, err


class Terminal(io.StringIO):
    """A terminal to write on."""

    def isatty(self):
        return True
