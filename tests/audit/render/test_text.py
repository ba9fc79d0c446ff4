"""An audit as text."""

from __future__ import annotations

import html as html_module
import json
import math
import re
from dataclasses import replace

import pytest

from graphmp.audit.measure.rows import ACTIVATION_GRADIENT, WEIGHT_GRADIENT
from graphmp.audit.render import html, text, words
from tests.support.audit_forms import page_json, rendered
from tests.support.audits import HOSTILE, audit, bad, exponents, finding, good, hostile, loss

pytestmark = pytest.mark.unit

NAN = float("nan")
SKIPPED = "1 of 1 loss, which skipped most steps, disagree"
NOTHING = (
    "losses (tolerance 1%) and weight gradients (tolerance 10%) agree; that shows nothing for loss:"
    " in the original, no step computes a finite value of it"
)


def line_of(shown, beginning):
    return next(line for line in shown.splitlines() if line.strip().startswith(beginning))


def test_the_head_says_what_was_measured_and_how():
    lines = rendered(good()).splitlines()
    assert lines[:5] == [
        "net.ckpt.meta float16 against float32, on the same batches",
        "source       models/net.ckpt.meta",
        (
            "arithmetic   simulated: float16 ops compute in float32 and round what they give to"
            " float16, as Tensor Cores do"
        ),
        "data         random, seed 0",
        "steps        3 training steps, all tensors measured in 3 of them; 1.5 s",
    ]


def test_losses_and_gradients_say_what_the_audit_does():
    found = good()
    shown = rendered(found)
    advice = found.losses[0].advice
    assert (
        line_of(shown, "loss ")
        == "loss         loss: original and converted differ by 0.008% at most; 0 of 3 steps"
        " skipped; loss scale now 256"
    )
    assert (
        "use %d of the %d powers of two of float16; the largest is 2^%d"
        % (advice.used, advice.powers, advice.largest)
        in shown
    )
    assert (
        "loss scale 2^37; gradients that become zero: %s without a scale, 0 with it"
        % words.share(advice.flushed)
        in shown
    )
    assert (
        line_of(shown, "agreement")
        == "agreement    losses (tolerance 1%) and weight gradients (tolerance 10%) agree"
    )


def test_a_row_of_each_role_has_the_numbers_of_the_json():
    found = good()
    shown = rendered(found)
    for role, sums in json.loads(found.to_json())["roles"].items():
        cells = re.split(r" {2,}", line_of(shown, role + "  ").strip())
        assert cells[:4] == [
            role,
            str(sums["tensors"]),
            str(sums["half"]),
            words.share(sums["overflow_share"]),
        ]
        assert cells[4:6] == [
            words.share(sums["flushed_share"]),
            words.share(sums["subnormal_share"]),
        ]
        assert cells[7] == words.share(sums["worst_error"])


def test_blocks_stand_above_the_zone_of_their_exponents():
    lines = rendered(good()).splitlines()
    row = next(
        line for line in lines if line.startswith("  " + ACTIVATION_GRADIENT) and "|" in line
    )
    ruler = next(line for line in lines if "|subnormal" in line)
    first = row.index("|") + 1
    drawn_at = {
        column - first + text.LOWEST
        for column, character in enumerate(row)
        if character in "▁▂▃▄▅▆▇█"
    }
    assert drawn_at == set(range(-30, -23))
    assert ruler.index("|zero") == first - 1
    assert (
        ruler.index("|subnormal") - first + text.LOWEST == -26
    )  # the first column that float16 holds is the next one
    assert ruler.index("|normal") - first + text.LOWEST == -15
    assert ruler.index("|overflow") - first + text.LOWEST == 15
    assert row.endswith("  13% zero")


def test_histograms_in_ascii_have_nothing_else():
    shown = rendered(good(), ascii_only=True)
    assert max(shown) <= "~"
    assert len(shown.splitlines()) == len(rendered(good()).splitlines())


@pytest.mark.parametrize(
    "encoding, able",
    [("utf-8", True), ("ascii", False), ("latin-1", False), ("no such encoding", False)],
)
def test_encodings_that_have_the_blocks(encoding, able):
    assert text.can_draw(encoding) is able


def test_the_worst_tensors_stand_first_with_reason_and_flag():
    lines = rendered(bad()).splitlines()
    start = lines.index("2 tensors overflow, or are not finite; the worst first")
    assert lines[start + 1 : start + 6] == [
        "  not finite first in a step: g/worse  MatMul",
        (
            "  g/worse  MatMul, weight gradient: 9 values not finite, 12 overflow (12%), relative"
            " error 90%"
        ),
        "      half precision: allow: MatMul is worth half precision",
        "      keep float32: --keep_float32='^g/worse$'",
        "  a/Exp  Exp, activation: 10 overflow (1%), 1 become zero (0.1%), relative error 0.1%",
    ]
    assert (
        "  a/infinite  MatMul, activation: not finite in the original too, relative error infinite"
        in lines
    )
    assert "  g/nan  MatMul, weight gradient: nothing to compare with" in lines


def test_the_first_tensor_that_is_not_finite_is_named():
    """By its place in a step, not by how bad it is.

    What isn't finite in the original either doesn't count.
    """
    broken = bad()
    order = {"g/worse": 7, "a/Exp": 4, "a/infinite": 2, "g/nan": 1}
    later = [
        replace(
            each,
            range=each.range._replace(
                row=each.range.row._replace(order=order[each.range.row.name]),
                not_finite=each.range.not_finite or 1,
            ),
        )
        for each in broken.findings
    ]
    found = replace(broken, findings=[each for each in later if each.range.row.name != "g/nan"])
    assert "  not finite first in a step: a/Exp  Exp\n" in rendered(found)
    form = json.loads(found.to_json())
    assert form["first_not_finite"] == "a/Exp"
    assert {each["name"]: each["order"] for each in form["tensors"]} == {
        name: n for name, n in order.items() if name != "g/nan"
    }
    assert (
        "not finite first" not in rendered(good())
        and json.loads(good().to_json())["first_not_finite"] is None
    )


def test_gradients_too_far_apart_for_any_loss_scale_are_said():
    each = finding("g", WEIGHT_GRADIENT, exponents(-50, 3) + exponents(-5, 97))
    found = audit([each], [loss([each])])
    said = (
        "3% become zero whatever the loss scale: they span 46 powers of two, float16 holds 40;"
        " --compute_dtype=bfloat16 holds all"
    )
    assert line_of(rendered(found), "vanishing") == "vanishing    " + said
    assert "Of the gradients %s." % said in html.render(found)
    assert "whatever the loss scale" not in rendered(good()) + html.render(good())


def test_at_most_so_many_tensors_are_listed():
    shown = rendered(bad(), most=1)
    assert "g/worse" in shown and "a/Exp" not in shown and "  and 3 more\n" in shown


def test_what_can_not_be_measured_is_said():
    shown = rendered(bad())
    assert "7 tensors of while loops not measured" in shown
    assert "  while/x:4\n  and 2 more\n" in shown


@pytest.mark.parametrize(
    "found, last",
    [
        (good(), "next         nothing to repair: graphmp convert models/net.ckpt.meta"),
        (
            good("bfloat16"),
            "next         nothing to repair: graphmp convert models/net.ckpt.meta"
            " --compute_dtype=bfloat16",
        ),
        (
            bad(),
            "next         graphmp audit models/net.ckpt.meta --data=feeds.npz --fix=net.policy",
        ),
    ],
)
def test_the_last_line_says_what_to_do(found, last):
    assert rendered(found).splitlines()[-1] == last
    assert html_module.escape(last[13:]) in html.render(found)


def test_disagreement_is_counted():
    found = bad()
    assert not found.agrees
    expected = "1 of 2 losses (tolerance 1%) and 2 of 2 weight gradients (tolerance 10%) disagree"
    assert line_of(rendered(found), "agreement") == "agreement    " + expected
    assert (
        "not finite in the converted graph, where the original's is; 2 of 3 steps skipped"
        in rendered(found)
    )
    assert "no gradient other than zero was seen" in rendered(found)


def test_bfloat16_has_a_range_of_its_own_and_needs_no_scale():
    shown = rendered(good("bfloat16"))
    assert "of the 261 powers of two of bfloat16" in shown
    assert "no loss scale needed" in shown
    assert "exponents from 2^-135 to 2^129, 5 a column" in shown
    page = html.render(good("bfloat16"))
    assert "becomes zero in bfloat16" in page and 'class="ghost"' not in page


def test_gradients_that_overflow_want_a_loss_scale_below_one():
    found = loss([], [1.0], [1.0])
    found = replace(found, advice=found.advice._replace(scale=2.0**-5, overflowing=0.25))
    assert words.scale_advice(found) == (
        "loss scale 2^-5; with 1, the lowest by default, 25% of the gradients overflow:"
        " --loss_scale_min=0.03125 lets a dynamic scale fall so far"
    )


def test_losses_that_are_never_finite_want_other_batches():
    found = audit([], [loss([], [NAN] * 3, [NAN] * 3)])
    last = "graphmp audit models/net.ckpt.meta --data=FEEDS"
    assert words.next_step(found) == "with batches on which the losses are finite: " + last
    assert last in html.render(found)


def test_an_audit_of_nothing():
    empty = audit([], [])
    assert "no tensor was measured" in rendered(empty)
    assert (
        "No tensor was measured." in html.render(empty)
        and page_json(html.render(empty))["tensors"] == []
    )


def test_hostile_names_steer_no_terminal():
    shown = rendered(hostile())
    assert all(line.isprintable() for line in shown.splitlines())
    assert "\\x1b[31m\\u202e\\n\u00e4\u4e2d" in shown
    longest = max(len(line) for line in shown.splitlines() if "weight gradient:" in line)
    assert longest < len(HOSTILE) + 400


def test_a_name_of_any_length_is_cut_in_its_middle():
    shown = words.shown("a/" * 500 + "end")
    assert len(shown) < 170 and shown.startswith("a/a/") and shown.endswith("/end")


@pytest.mark.parametrize(
    "value, shown",
    [(0.0, "0"), (1.0, "100%"), (0.125, "12%"), (0.0125, "1.2%"), (0.000123, "0.012%"), (1e-6, "0.0001%"), (1e-9, "<0.0001%"), (30.0, "3,000%"),
     (math.nan, "-"), (math.inf, "infinite")],
)  # fmt: skip
def test_shares_in_percent(value, shown):
    assert words.share(value) == shown


@pytest.mark.parametrize(
    "scale, shown", [(1.0, "1"), (32768.0, "32,768"), (2.0**30, "2^30"), (0.25, "2^-2")]
)
def test_powers(scale, shown):
    assert words.power(scale) == shown


@pytest.mark.parametrize(
    "original, converted, skipped, said, agreement",
    [
        ([1.0] * 3, [1.0] * 3, 2, "original and converted differ by 0 at most", SKIPPED),
        ([NAN] * 3, [NAN] * 3, 3, "not finite in 3 of 3 steps, nor is the original's", NOTHING),
        (
            [NAN, 1.0, 2.0],
            [NAN, 1.0, 2.0],
            0,
            "not finite in 1 of 3 steps, nor is the original's; else original and converted differ"
            " by 0 at most",
            "losses (tolerance 1%) agree; no weight gradient other than zero was compared",
        ),
        ([NAN] * 3, [NAN] * 3, 0, "not finite in 3 of 3 steps, nor is the original's", NOTHING),
        ([1.0] * 3, [NAN] * 3, 0, "not finite in the converted graph", "1 of 1 loss (tolerance"),
    ],
)
def test_losses_that_are_not_finite_and_steps_that_are_skipped(
    original, converted, skipped, said, agreement
):
    found = loss([], original, converted, skipped=skipped)
    assert words.agreement(found).startswith(said)
    assert words.agreement_of_all(audit([], [found])).startswith(agreement)


def test_gradients_of_zero_alone_show_nothing():
    found = good()
    zeros = [
        replace(each, range=each.range._replace(error=NAN, converted_norm=0.0))
        if each.range.row.role == WEIGHT_GRADIENT
        else each
        for each in found.findings
    ]
    found = replace(found, findings=zeros)
    assert line_of(rendered(found), "agreement") == (
        "agreement    losses (tolerance 1%) agree; no weight gradient other than zero was compared"
    )
    assert words.next_step(found) == (
        "with batches that give gradients other than zero:"
        " graphmp audit models/net.ckpt.meta --data=FEEDS"
    )
