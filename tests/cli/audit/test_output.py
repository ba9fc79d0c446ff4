"""The files that `graphmp audit` writes."""

from __future__ import annotations

import json

import pytest

import graphmp
from graphmp.audit.repair.fix import half_nodes
from graphmp.policy.policy import Policy
from tests.support.audit_command import STEPS, audited
from tests.support.commands import graphmp as command

ELSEWHERE = "--keep_float32=^(before|after|gradients)/"  # so that few nodes are searched


def test_text(folder, capfd):
    status, out, err = command(capfd, "audit", "good.meta", "--data=data.npz", STEPS)
    assert (status, err) == (0, "") and "\x1b" not in out
    lines = out.splitlines()
    assert (
        lines[0].startswith("good.meta ")
        and lines[-1] == "next         nothing to repair: graphmp convert good.meta"
    )
    assert any(line.startswith("advice ") for line in lines)


def test_files_are_written(folder, capfd):
    status, out, _ = command(
        capfd,
        "audit",
        "bad.meta",
        "--data=data.npz",
        STEPS,
        "-o",
        "audit.json",
        "--html=audit.html",
    )
    assert status == 1 and "fault/MatMul" in out
    value = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert value["agrees"] is False and "fault/MatMul" in value["overflowed"]
    page = (folder / "audit.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "fault/MatMul" not in half_nodes(graphmp.convert("bad.meta", ranges="audit.json"))


def test_fix_writes_a_policy_with_which_it_agrees(folder, capfd):
    status, out, err = command(
        capfd, "audit", "bad.meta", "--data=data.npz", STEPS, "--fix=model.policy"
    )
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("next")] == [
        "next         graphmp convert bad.meta --op_policy=model.policy"
    ]
    text = (folder / "model.policy").read_text()
    assert text.startswith("keep_float32 ^fault/MatMul$") and Policy.from_text(
        text
    ).keep_float32 == ("^fault/MatMul$",)
    assert (
        audited(capfd, "bad.meta", "--data=data.npz", "--op_policy=model.policy")["agrees"] is True
    )


def test_fix_keeps_the_lines_of_the_policy_that_was_used(folder, capfd):
    (folder / "own.policy").write_text("deny Tanh")  # without an end of line
    status, _, _ = command(
        capfd,
        "audit",
        "bad.meta",
        "--data=data.npz",
        STEPS,
        "--fix=model.policy",
        "--op_policy=own.policy",
        ELSEWHERE,
    )
    assert status == 0 and (folder / "own.policy").read_text() == "deny Tanh"
    assert (
        (folder / "model.policy").read_text().startswith("deny Tanh\nkeep_float32 ^fault/MatMul$")
    )


def test_fix_may_advise_a_loss_scale_instead(folder, capfd):
    status, out, _ = command(
        capfd,
        "audit",
        "tiny.meta",
        "--data=data.npz",
        STEPS,
        "--loss_scale=none",
        "--fix=model.policy",
    )
    wrote, next_line = out.splitlines()[-2:]
    assert wrote == "wrote        nothing: there is no rule for model.policy"
    assert not (folder / "model.policy").exists()
    assert status == 0 and next_line.startswith(
        "next         graphmp convert tiny.meta --loss_scale="
    )
    assert audited(capfd, "tiny.meta", "--data=data.npz", next_line.split()[-1])["agrees"] is True


def test_fix_of_what_agrees_writes_nothing(folder, capfd):
    status, out, _ = command(
        capfd, "audit", "good.meta", "--data=data.npz", STEPS, "--fix=model.policy"
    )
    assert status == 0 and "nothing to repair" in out and not (folder / "model.policy").exists()


@pytest.mark.parametrize(
    "source, status", [("good.meta", 0), ("bad.meta", 1), ("tiny.meta", 1), ("gone.meta", 2)]
)
def test_exit_statuses(folder, capfd, source, status):
    assert (
        command(capfd, "audit", source, "--data=data.npz", STEPS, "--loss_scale=none")[0] == status
    )


def test_tolerance_decides(folder, capfd):
    assert (
        audited(capfd, "good.meta", "--data=data.npz", "--tolerance=1e-9", status=1)["agrees"]
        is False
    )
    assert audited(capfd, "good.meta", "--data=data.npz", "--tolerance=0.5")["agrees"] is True
