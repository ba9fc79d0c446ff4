"""The command as a whole: what nothing expected is one line."""

import os

from graphmp.cli.main import run_command


def test_a_working_folder_that_is_gone_is_one_line(tmp_path, capsys):
    (tmp_path / "gone").mkdir()
    before = os.getcwd()
    os.chdir(str(tmp_path / "gone"))
    try:
        (tmp_path / "gone").rmdir()
        status = run_command(["graphmp", "tune", "g.meta", "-o", "m.costs"])
    finally:
        os.chdir(before)
    assert status == 2
    assert capsys.readouterr().err == (
        "graphmp: error GMP003: the working folder is not there any more: run this again in one"
        " that is\n"
    )
