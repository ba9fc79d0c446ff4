"""The table of codes: each is raised or reported somewhere, and each says what to do."""

from __future__ import annotations

import json
import pathlib

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.cli.main import COMMANDS, run_command
from graphmp.errors import CODES, GraphmpError

pytestmark = pytest.mark.unit

SOURCES = [p for p in pathlib.Path(graphmp.__file__).parent.rglob("*.py") if p.name != "errors.py"]
TEXT = "".join(p.read_text() for p in SOURCES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_code_is_in_use_and_has_a_cure(code):
    assert '"%s"' % code in TEXT
    assert CODES[code].meaning.endswith(".") and CODES[code].cure.endswith(".")
    assert (CODES[code].exit_status == 0) == (code >= "GMP100")


def test_an_error_is_one_line_whatever_its_message():
    error = GraphmpError("GMP003", "model.py:\n  no such\n\n file")
    assert str(error) == "GMP003: model.py: no such file" and error.exit_status == 2


def test_explain(capfd):
    assert run_command(["graphmp", "explain", "gmp012"]) == 0
    assert capfd.readouterr().out.startswith(
        "GMP012 (error, exit status 1)\n  The recipe does not fit this build function.\n  cure: "
    )
    assert run_command(["graphmp", "explain", "GMP102", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["code"] == "GMP102"
    assert run_command(["graphmp", "explain", "GMP999"]) == 2
    assert "no such code; accepted are GMP001 to GMP1" in capfd.readouterr().err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_every_command_has_an_example(command, capfd):
    with pytest.raises(SystemExit) as ended:
        run_command(["graphmp", command, "--help"])
    assert ended.value.code == 0
    assert "example:\n  graphmp %s" % command in capfd.readouterr().out


def test_session_options_are_made_for_a_target():
    with pytest.raises(
        GraphmpError, match="GMP002: session_config: found a ConfigProto, accepted is a target"
    ):
        graphmp.session_config(tf.ConfigProto())
