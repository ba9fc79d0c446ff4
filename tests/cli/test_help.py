"""`--help`.

Everyday flags first, the others in titled groups, each flag once, at the width of a terminal; and
docs/flags.md in the same order.
"""

from __future__ import annotations

import importlib
import re

import pytest

from graphmp.cli import help as helps
from graphmp.cli.main import COMMANDS, run_command
from graphmp.cli.parser import build_parser
from tests.support.places import TOOLS

pytestmark = pytest.mark.unit

CONVERTING = sorted(name for name, module in COMMANDS.items() if hasattr(module, "FLAGS"))
TITLES = [helps.EVERYDAY] + [group.title for group in helps.GROUPS]
TITLE = re.compile(r"^([a-z][^:\n]*):\n", re.MULTILINE | re.IGNORECASE)


@pytest.fixture
def reference(monkeypatch):
    """tools/reference.py."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("reference")


@pytest.fixture
def shown(capfd, monkeypatch):
    def shown(command, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as ended:
            run_command(["graphmp", command, "--help"])
        assert ended.value.code == 0
        return capfd.readouterr().out

    return shown


def sections(text):
    """For each title of a help text the flags below it, in order."""
    flags, example, rest = text.partition("\nexample:\n")
    parts = TITLE.split(flags + example + rest.partition("\n\n")[0])[1:]
    return {
        title: re.findall(r"^  (?:-\w(?: [^-,\n]+)?, )?-{1,2}(\w+)", body, re.MULTILINE)
        for title, body in zip(parts[::2], parts[1::2])
    }


@pytest.mark.parametrize("command", CONVERTING)
def test_everyday_flags_first_then_groups(command, shown):
    found = sections(shown(command))
    titles = [title for title in found if title not in ("arguments", "example")]
    assert titles[0] == helps.EVERYDAY and titles == [title for title in TITLES if title in titles]
    assert (
        found[helps.EVERYDAY] == [_shown_name(command, name) for name in COMMANDS[command].EVERYDAY]
        and len(found[helps.EVERYDAY]) == 6
    )
    assert {"force_compute", "op_policy"} & set(
        found["what stays float32"]
    ) and "loss_scale_min" in found["loss scale and gradients"]
    assert list(found)[-1] == "example"


@pytest.mark.parametrize("command", CONVERTING)
def test_each_flag_is_shown_once(command, shown):
    parser = build_parser(COMMANDS, "")._subparsers._group_actions[0].choices[command]
    flags = [
        helps._name(action)
        for action in parser._actions
        if action.option_strings and action.help != "==SUPPRESS=="
    ]
    names = [name for title, members in sections(shown(command)).items() for name in members]
    wanted = [_shown_name(command, name) for name in flags]
    assert sorted(names) == sorted(wanted) and len(set(names)) == len(names)
    assert helps.OTHER not in sections(shown(command)), "give each flag a group in cli/help.py"


def _shown_name(command, name):
    return "m" if (command, name) == ("run", "module") else name


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_it_fits_a_terminal(command, shown):
    if command in CONVERTING:
        assert max(map(len, shown(command).splitlines())) <= 80
        assert max(map(len, shown(command, 300).splitlines())) <= 100
        assert "usage: graphmp %s [flags] " % command in shown(command)
    text = shown(command)
    assert "repeat this option" not in text and "example:\n  graphmp %s" % command in text
    assert ("xit status:" in " ".join(text.split())) == (
        "xit status:" in " ".join(COMMANDS[command].EXAMPLE.split())
    )


def test_what_a_flag_takes_is_a_word(shown):
    text = shown("convert")
    for line in (
        "  --loss_scale SCALE",
        "  --keep_float32 REGEX",
        "  --op_policy FILE",
        "  --loss_scale_growth_interval NUMBER",
        "  --train_op OP",
    ):
        assert line in text
    assert "  -m MODULE" in shown("run")


def test_a_wrapped_example_is_a_command(shown):
    assert "-o out \\\n      -- --batch_size 64\n" in shown("convert")


def test_a_flag_of_no_group_stands_in_the_end():
    class Flag:
        def __init__(self, name):
            self.name = name

    found = helps.grouped(
        [Flag("new"), Flag("json"), Flag("loss_scale"), Flag("tag")], ["loss_scale"]
    )
    assert [(title, [flag.name for flag in flags]) for title, flags in found] == [
        (helps.EVERYDAY, ["loss_scale"]),
        ("source and inputs", ["tag"]),
        ("what is printed and written", ["json"]),
        (helps.OTHER, ["new"]),
    ]


def test_the_reference_has_the_same_groups(reference, shown):
    page = reference.flags_page()
    conversion = page[page.index("## Conversion flags") : page.index("## graphmp audit")]
    tables = [part.partition("\n") for part in conversion.split("### ")[1:]]
    found = {
        title.lower(): re.findall(r"^\| `--(\w+)", body, re.MULTILINE) for title, _, body in tables
    }
    given = sections(shown("convert"))
    own = set(COMMANDS["convert"].FLAGS)
    assert found == {
        title: [n for n in names if n in own] for title, names in given.items() if own & set(names)
    }
    for command in CONVERTING:
        section = page[page.index("## graphmp %s\n" % command) :].split("\n## ")[0]
        assert (
            "Its everyday flags are "
            + ", ".join("`--%s`" % name for name in COMMANDS[command].EVERYDAY[:5]).replace(
                "--module", "-m"
            )
            in section
        )


def test_a_flag_is_in_one_group():
    names = [name for group in helps.GROUPS for name in group.names]
    assert len(names) == len(set(names))
