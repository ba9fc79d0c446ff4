"""The texts of reasons, and records as JSON."""

from __future__ import annotations

import json

import pytest

from graphmp.policy.reason import DENY, SECOND_ENTER, Done, Reason, user_rule
from graphmp.report.record import Record

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "reason, text",
    [
        (Reason(DENY, "Exp computes in float32"), "deny: Exp computes in float32"),
        (Reason(SECOND_ENTER), "loop invariant, cast before the loop"),
        (Reason("", "input of the build function"), "input of the build function"),
        (user_rule("keep_float32", "^a$"), "user rule: --keep_float32=^a$"),
    ],
)
def test_the_text_begins_with_the_kind(reason, text):
    assert reason.text == text


def test_a_record_survives_json():
    why = Reason(DENY, "Exp computes in float32", "a")
    record = Record(done=[Done("b", "inserted", why)], left={"c": why})
    assert Record.from_json(json.loads(json.dumps(record.as_json()))) == record
