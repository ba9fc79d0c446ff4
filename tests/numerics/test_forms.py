"""An audit as text and as a page; tests/browser has what a browser makes of the page."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html as html_module
import json
import math
import pathlib
import re
from dataclasses import replace

import numpy as np
import pytest

from graphmp.numerics import html, text
from graphmp.numerics.drawing import NOT_FINITE, OVERFLOWS, SUBNORMAL, VANISHES, ZERO, Frame, drawn, linear_top, loss_chart, scaled, superscript
from graphmp.numerics.rows import ACTIVATION_GRADIENT, ROLES, WEIGHT_GRADIENT
from graphmp.policy.formats import BFLOAT16, EXPONENT_BIAS, FLOAT16
from tests.support.audits import HOSTILE, audit, bad, exponents, finding, good, hostile, loss, many

PARTS = pathlib.Path(html.__file__).parent / "page"


def page_json(page):
    return json.loads(gzip.decompress(base64.b64decode(re.search(r'<script id="data"[^>]*>([^<]*)<', page).group(1))).decode("ascii"))


def line_of(rendered, beginning):
    return next(line for line in rendered.splitlines() if line.strip().startswith(beginning))


# Text


def test_the_head_says_what_was_measured_and_how():
    lines = text.render(good()).splitlines()
    assert lines[:5] == [
        "net.ckpt.meta float16 against float32, on the same batches",
        "source       models/net.ckpt.meta",
        "arithmetic   simulated: float16 ops compute in float32 and round what they give to float16, as Tensor Cores do",
        "data         random, seed 0",
        "steps        3 training steps, all tensors measured in 3 of them; 1.5 s",
    ]


def test_losses_and_gradients_say_what_the_audit_does():
    found = good()
    rendered = text.render(found)
    advice = found.losses[0].advice
    assert (
        line_of(rendered, "loss ") == "loss         loss: original and converted differ by 0.008% at most; 0 of 3 steps skipped; loss scale now 256"
    )
    assert "use %d of the %d powers of two of float16; the largest is 2^%d" % (advice.used, advice.powers, advice.largest) in rendered
    assert "loss scale 2^37; gradients that become zero: %s without a scale, 0 with it" % text.share(advice.flushed) in rendered
    assert line_of(rendered, "agreement") == "agreement    losses and weight gradients agree (tolerance 10%)"


def test_a_row_of_each_role_has_the_numbers_of_the_json():
    found = good()
    rendered = text.render(found)
    for role, sums in json.loads(found.to_json())["roles"].items():
        cells = re.split(r" {2,}", line_of(rendered, role + "  ").strip())
        assert cells[:4] == [role, str(sums["tensors"]), str(sums["half"]), text.share(sums["overflow_share"])]
        assert cells[4:6] == [text.share(sums["flushed_share"]), text.share(sums["subnormal_share"])]
        assert cells[7] == text.share(sums["worst_error"])


def test_blocks_stand_above_the_zone_of_their_exponents():
    lines = text.render(good()).splitlines()
    row = next(line for line in lines if line.startswith("  " + ACTIVATION_GRADIENT) and "|" in line)
    ruler = next(line for line in lines if "|subnormal" in line)
    first = row.index("|") + 1
    drawn_at = {column - first + text.LOWEST for column, character in enumerate(row) if character in "▁▂▃▄▅▆▇█"}
    assert drawn_at == set(range(-30, -23))
    assert ruler.index("|zero") == first - 1
    assert ruler.index("|subnormal") - first + text.LOWEST == -26  # the first column that float16 holds is the next one
    assert ruler.index("|normal") - first + text.LOWEST == -15
    assert ruler.index("|overflow") - first + text.LOWEST == 15
    assert row.endswith("  13% zero")


def test_histograms_in_ascii_have_nothing_else():
    rendered = text.render(good(), ascii_only=True)
    assert max(rendered) <= "~"
    assert len(rendered.splitlines()) == len(text.render(good()).splitlines())


@pytest.mark.parametrize("encoding, able", [("utf-8", True), ("ascii", False), ("latin-1", False), ("no such encoding", False)])
def test_encodings_that_have_the_blocks(encoding, able):
    assert text.can_draw(encoding) is able


def test_the_worst_tensors_stand_first_with_reason_and_flag():
    lines = text.render(bad()).splitlines()
    start = lines.index("2 tensors overflow, or are not finite; the worst first")
    assert lines[start + 1 : start + 6] == [
        "  not finite first in a step: g/worse  MatMul",
        "  g/worse  MatMul, weight gradient: 9 values not finite, 12 overflow (12%), relative error 90%",
        "      half precision: allow: MatMul is worth half precision",
        "      keep float32: --keep_float32='^g/worse$'",
        "  a/Exp  Exp, activation: 10 overflow (1%), 1 become zero (0.1%), relative error 0.1%",
    ]
    assert "  a/infinite  MatMul, activation: not finite in the original too, relative error infinite" in lines
    assert "  g/nan  MatMul, weight gradient: nothing to compare with" in lines


def test_the_first_tensor_that_is_not_finite_is_named():
    """By its place in a step, not by how bad it is; what isn't finite in the original either doesn't count."""
    broken = bad()
    order = {"g/worse": 7, "a/Exp": 4, "a/infinite": 2, "g/nan": 1}
    later = [
        replace(each, range=each.range._replace(row=each.range.row._replace(order=order[each.range.row.name]), not_finite=each.range.not_finite or 1))
        for each in broken.findings
    ]
    found = replace(broken, findings=[each for each in later if each.range.row.name != "g/nan"])
    assert "  not finite first in a step: a/Exp  Exp\n" in text.render(found)
    form = json.loads(found.to_json())
    assert form["first_not_finite"] == "a/Exp"
    assert {each["name"]: each["order"] for each in form["tensors"]} == {name: n for name, n in order.items() if name != "g/nan"}
    assert "not finite first" not in text.render(good()) and json.loads(good().to_json())["first_not_finite"] is None


def test_gradients_too_far_apart_for_any_loss_scale_are_said():
    each = finding("g", WEIGHT_GRADIENT, exponents(-50, 3) + exponents(-5, 97))
    found = audit([each], [loss([each])])
    said = "3% become zero whatever the loss scale: they span 46 powers of two, float16 holds 40; --compute_dtype=bfloat16 holds all"
    assert line_of(text.render(found), "vanishing") == "vanishing    " + said
    assert "Of the gradients %s." % said in html.render(found)
    assert "whatever the loss scale" not in text.render(good()) + html.render(good())


def test_at_most_so_many_tensors_are_listed():
    rendered = text.render(bad(), most=1)
    assert "g/worse" in rendered and "a/Exp" not in rendered and "  and 3 more\n" in rendered


def test_what_can_not_be_measured_is_said():
    rendered = text.render(bad())
    assert "7 tensors of while loops not measured" in rendered
    assert "  while/x:4\n  and 2 more\n" in rendered


@pytest.mark.parametrize(
    "found, last",
    [
        (good(), "next         nothing to repair: graphmp convert models/net.ckpt.meta"),
        (bad(), "next         graphmp audit models/net.ckpt.meta --data=feeds.npz --fix=net.policy"),
    ],
)
def test_the_last_line_says_what_to_do(found, last):
    assert text.render(found).splitlines()[-1] == last
    assert html_module.escape(last[13:]) in html.render(found)


def test_disagreement_is_counted():
    found = bad()
    assert not found.agrees
    assert line_of(text.render(found), "agreement") == "agreement    1 of 2 losses and 2 of 2 weight gradients do not agree (tolerance 10%)"
    assert "not finite in the converted graph, where the original's is; 2 of 3 steps skipped" in text.render(found)
    assert "no gradient other than zero was seen" in text.render(found)


def test_bfloat16_has_a_range_of_its_own_and_needs_no_scale():
    rendered = text.render(good("bfloat16"))
    assert "of the 261 powers of two of bfloat16" in rendered
    assert "no loss scale needed" in rendered
    assert "exponents from 2^-135 to 2^129, 5 a column" in rendered
    page = html.render(good("bfloat16"))
    assert "becomes zero in bfloat16" in page and 'class="ghost"' not in page


def test_an_audit_of_nothing():
    empty = audit([], [])
    assert "no tensor was measured" in text.render(empty)
    assert "No tensor was measured." in html.render(empty) and page_json(html.render(empty))["tensors"] == []


def test_hostile_names_steer_no_terminal():
    rendered = text.render(hostile())
    assert all(line.isprintable() for line in rendered.splitlines())
    assert "\\x1b[31m\\u202e\\n\u00e4\u4e2d" in rendered
    longest = max(len(line) for line in rendered.splitlines() if "weight gradient:" in line)
    assert longest < len(HOSTILE) + 400


def test_a_name_of_any_length_is_cut_in_its_middle():
    shown = text.shown("a/" * 500 + "end")
    assert len(shown) < 170 and shown.startswith("a/a/") and shown.endswith("/end")


@pytest.mark.parametrize(
    "value, shown",
    [(0.0, "0"), (1.0, "100%"), (0.125, "12%"), (0.0125, "1.2%"), (0.000123, "0.012%"), (1e-6, "0.0001%"), (1e-9, "<0.0001%"), (30.0, "3,000%"),
     (math.nan, "-"), (math.inf, "infinite")],
)  # fmt: skip
def test_shares_in_percent(value, shown):
    assert text.share(value) == shown


@pytest.mark.parametrize("scale, shown", [(1.0, "1"), (32768.0, "32,768"), (2.0**30, "2^30"), (0.25, "2^-2")])
def test_powers(scale, shown):
    assert text.power(scale) == shown


# Drawings


def test_bars_lie_in_the_zone_that_their_values_end_in():
    frame = Frame(FLOAT16, [exponents(-30, 1)])
    zones = {exponent: frame.bins[frame.fields[exponent + EXPONENT_BIAS]].zone for exponent in (-26, -25, -15, -14, 15, 16)}
    assert zones == {-26: VANISHES, -25: SUBNORMAL, -15: SUBNORMAL, -14: "normal", 15: "normal", 16: OVERFLOWS}
    assert [frame.bins[frame.fields[field]].zone for field in (0, 255)] == [ZERO, NOT_FINITE]


@pytest.mark.parametrize("format_", [FLOAT16, BFLOAT16])
def test_bars_stand_beside_each_other_inside_the_drawing(format_):
    frame = Frame(format_, [exponents(-126, *[1] * 254)])
    edges = [(each.x, each.x + each.width) for each in frame.bins]
    assert all(end <= start + 1e-6 for (_, end), (start, _) in zip(edges, edges[1:]))
    assert edges[0][0] >= 0 and edges[-1][1] <= 560
    assert sum(frame.shares(exponents(-126, *[1] * 254, zeros=9, not_finite=1))) == pytest.approx(1)


def test_a_range_as_wide_as_the_values_need():
    assert (Frame(FLOAT16, [exponents(-3, 1)]).low, Frame(FLOAT16, [exponents(-3, 1)]).high) == (-40, 22)
    assert Frame(FLOAT16, [exponents(-50, 1)]).low == -50
    assert Frame(FLOAT16, [exponents(-100, 1)]).low == -64


def test_a_scale_moves_values_and_leaves_zeros():
    moved = scaled(exponents(-30, 3, 4, zeros=5, not_finite=6), 256.0)
    assert np.array_equal(moved, exponents(-22, 3, 4, zeros=5, not_finite=6))
    assert scaled(exponents(-126, 3), 0.5).sum() == scaled(exponents(120, 3), 2.0**20).sum() == 3


def test_the_outline_of_scaled_values_is_drawn_once_an_axis():
    counts = exponents(-30, 3, 4)
    frame = Frame(FLOAT16, [counts])
    picture = drawn(frame, counts, scaled(counts, 256.0), "\u00d7 256")
    assert picture.count('class="ghost"') == picture.count("\u00d7 256") == 2
    assert drawn(frame, counts).count('class="ghost"') == 0


def test_no_share_is_above_a_linear_axis():
    for part in (0.0, 0.003, 0.07, 0.21, 0.9, 1.0):
        assert part <= linear_top([part]) <= 1


def test_a_chart_of_losses_that_are_not_finite():
    for values in ([], [1.0], [math.nan, math.inf], [0.0, 0.0], [1e38, -1e38]):
        chart = loss_chart(values, values, [0.0 if math.isfinite(value) else math.inf for value in values], "x")
        assert "nan" not in chart and "inf" not in chart
    assert "&lt;0.0001%" in loss_chart([1.0], [1.0], [1e-9], "x")


def test_superscripts():
    assert superscript(-40) == "\u207b\u2074\u2070"


# The page


def test_the_policy_admits_the_page_s_own_style_and_script_alone():
    page = html.render(good())
    policy = html_module.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1))
    hashes = [digest(re.search("<%s>(.*?)</%s>" % (tag, tag), page, re.DOTALL).group(1)) for tag in ("style", "script")]
    assert policy == "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'" % tuple(hashes)


def digest(content):
    return base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


@pytest.mark.parametrize("found", [good(), bad(), hostile(), good("bfloat16")])
def test_the_page_refers_to_nothing_elsewhere(found):
    page = html.render(found)
    assert set(re.findall(r"https?://[^\s'\"]*", page)) == {"http://www.w3.org/2000/svg"}  # a name, never loaded
    unquoted = re.sub(r"&lt;img.*?&gt;", "", page)
    assert not re.search(r"\ssrc=|<link|@import|url\(|\sstyle=", unquoted)
    assert not re.search(r"\$[a-z]", page.split("<script>")[0].split("</style>")[1])  # every place of the template was filled


def test_names_never_become_markup():
    page = html.render(hostile())
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page and "\x1b" not in page and "\u202e" not in page
    scripts = "".join(path.read_text(encoding="utf-8") for path in PARTS.glob("*.js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", scripts)
    assert all(tensor[name].isprintable() for tensor in page_json(page)["tensors"] for name in ("name", "op", "reason", "flag", "wrong"))


def test_every_script_is_on_the_page():
    assert sorted(name for package, name in html.SCRIPTS if package == "graphmp.numerics") == sorted(path.stem for path in PARTS.glob("*.js"))


def test_the_data_of_the_page_is_that_of_the_json():
    found = bad()
    tensors = json.loads(found.to_json())["tensors"]
    shown = page_json(html.render(found))["tensors"]
    assert [{name: tensor[name] for name in tensors[0]} for tensor in shown] == tensors
    assert [tensor["wrong"] for tensor in shown] == [text.wrong(each) for each in found.findings]


def test_without_scripts_there_are_figures_tables_and_the_worst_tensors():
    page = html.render(bad()).split('<template id="frame">')[0]
    assert page.count("<figure>") == 2 + len(bad().losses)  # two roles have values
    for part in ("2 tensors overflow, or are not finite", "g/worse", "--keep_float32=&#x27;^g/worse$&#x27;", "9 values not finite", "while/x:6",
                 "Not finite in the converted graph"):  # fmt: skip
        assert part in page


def test_a_caption_says_what_a_scale_saves():
    page = html.render(good())
    assert page.count("<figure>") == len(ROLES) + 1
    assert "Of the others 58% become zero in float16 without a loss scale, none times the advised 2^37 (outline)." in page
    assert "13% of the values are zero." in page


def test_the_same_audit_gives_the_same_bytes():
    assert html.render(good()) == html.render(good())


def test_thousands_of_tensors_take_few_bytes():
    assert len(html.render(many(5000))) < 2e6


def test_a_loss_without_a_gradient_or_a_step():
    found = audit([finding("a", ROLES[0], exponents(0, 1))], [loss([], original=(), converted=())])
    assert "0 of 0 steps skipped; loss scale now none" in text.render(found)
    assert "<figure>" in html.render(found)
