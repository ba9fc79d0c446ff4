"""An audit as a page; tests/browser opens it in a browser."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from graphmp.audit.measure.rows import ROLES
from graphmp.audit.render import html, words
from tests.support.audit_forms import page_json, rendered
from tests.support.audits import audit, bad, exponents, finding, good, hostile, loss, many
from tests.support.page_policy import own_alone, policy

pytestmark = pytest.mark.unit

PARTS = pathlib.Path(html.__file__).parent / "page"


def test_the_policy_admits_the_page_s_own_style_and_script_alone():
    page = html.render(good())
    assert policy(page) == own_alone(page)


@pytest.mark.parametrize("found", [good(), bad(), hostile(), good("bfloat16")])
def test_the_page_refers_to_nothing_elsewhere(found):
    page = html.render(found)
    assert set(re.findall(r"https?://[^\s'\"]*", page)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, never loaded
    unquoted = re.sub(r"&lt;img.*?&gt;", "", page)
    assert not re.search(r"\ssrc=|<link|@import|url\(|\sstyle=", unquoted)
    assert not re.search(
        r"\$[a-z]", page.split("<script>")[0].split("</style>")[1]
    )  # every place of the template was filled


def test_names_never_become_markup():
    page = html.render(hostile())
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page and "\x1b" not in page and "\u202e" not in page
    scripts = "".join(path.read_text(encoding="utf-8") for path in PARTS.glob("*.js"))
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", scripts
    )
    assert all(
        tensor[name].isprintable()
        for tensor in page_json(page)["tensors"]
        for name in ("name", "op", "reason", "flag", "wrong")
    )


def test_every_script_is_on_the_page():
    assert sorted(
        name for package, name in html.SCRIPTS if package == "graphmp.audit.render"
    ) == sorted(path.stem for path in PARTS.glob("*.js"))


def test_the_data_of_the_page_is_that_of_the_json():
    found = bad()
    tensors = json.loads(found.to_json())["tensors"]
    shown = page_json(html.render(found))["tensors"]
    assert [{name: tensor[name] for name in tensors[0]} for tensor in shown] == tensors
    assert [tensor["wrong"] for tensor in shown] == [words.wrong(each) for each in found.findings]


def test_without_scripts_there_are_figures_tables_and_the_worst_tensors():
    page = html.render(bad()).split('<template id="frame">')[0]
    assert page.count("<figure>") == 2 + len(bad().losses)  # two roles have values
    for part in ("2 tensors overflow, or are not finite", "g/worse", "--keep_float32=&#x27;^g/worse$&#x27;", "9 values not finite", "while/x:6",
                 "Not finite in the converted graph"):  # fmt: skip
        assert part in page


def test_a_caption_says_what_a_scale_saves():
    page = html.render(good())
    assert page.count("<figure>") == len(ROLES) + 1
    assert (
        "Of the others 58% become zero in float16 without a loss scale, none times the advised 2^37"
        " (outline)." in page
    )
    assert "13% of the values are zero." in page


def test_the_same_audit_gives_the_same_bytes():
    assert html.render(good()) == html.render(good())


def test_thousands_of_tensors_take_few_bytes():
    assert len(html.render(many(5000))) < 2e6


def test_a_loss_without_a_gradient_or_a_step():
    found = audit([finding("a", ROLES[0], exponents(0, 1))], [loss([], original=(), converted=())])
    assert "0 of 0 steps skipped; loss scale now none" in rendered(found)
    assert "<figure>" in html.render(found)
