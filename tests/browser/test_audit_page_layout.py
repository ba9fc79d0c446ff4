"""The page of an audit at several widths.

Nothing that is drawn is cut or overlaps, the losses use the width, fixes are copied.
"""

from __future__ import annotations

import math

import pytest

from graphmp.audit.measure.rows import ACTIVATION
from graphmp.audit.render import html
from tests.support import chromium
from tests.support.audits import audit, bad, exponents, finding, good, loss, many

chromium.skip_without_one()
WIDTHS = [1400, 900, 500]
NAME = "model/encoder/layer_11/attention/self/a_rather_long_scope_of_a_user/dense/MatMul"

# Texts of drawings that can be seen, by what they say: those that leave their drawing, and pairs
# that overlap.
CUT = """const found = [];
for (const figure of document.querySelectorAll('svg.figure')) {
  const outer = figure.getBoundingClientRect();
  const texts = [...figure.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]).filter(([, box]) => box.width);
  for (const [text, box] of texts) {
    if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 || box.bottom > outer.bottom + 1) found.push(text);
  }
  texts.forEach(([text, a], index) => texts.slice(index + 1).forEach(([other, b]) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3) found.push(`${text} | ${other}`);
  }));
}
return found;"""
CELLS = """return [...document.querySelectorAll('#rows .row > div:not(.tensor), #heads > div')]
  .filter((cell) => cell.getClientRects().length && cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent);"""


def wild():
    """Losses and shares of many sizes, and a long name."""
    one = finding(
        NAME,
        ACTIVATION,
        exponents(-60, *[3] * 80),
        overflow=1,
        largest=90900.0,
        flushed=2,
        error=0.123,
    )
    rare = finding(
        "rare",
        ACTIVATION,
        exponents(0, 10**7),
        overflow=40,
        largest=2.7e6,
        flushed=40,
        subnormal=39,
    )
    losses = [
        (139512.25, 6.86912),
        (0.000012345, 0.0000067),
        (-1234567.0, 2.0),
        (math.inf, math.nan),
    ]
    return audit(
        [one, rare],
        [
            loss([], original=each, converted=each, name="loss_%d" % number)
            for number, each in enumerate(losses)
        ],
    )


@pytest.fixture(scope="module")
def pages(folder):
    found = {}
    for name, each in (
        ("good", good()),
        ("bad", bad()),
        ("bfloat16", good("bfloat16")),
        ("many", many(50)),
        ("wild", wild()),
    ):
        found[name] = folder / ("layout_%s.html" % name)
        found[name].write_text(html.render(each), encoding="utf-8")
    return found


@pytest.fixture
def at(browser):
    """Opens a page at a width."""

    def opened(page, width):
        chromium.resize(browser, width, 900)
        chromium.open_page(browser, page)
        return browser

    yield opened
    chromium.resize(browser, *chromium.WIDE)


@pytest.mark.parametrize("name", ["good", "bad", "bfloat16", "many", "wild"])
def test_no_label_is_cut_or_overlaps_another(at, pages, name):
    for width in WIDTHS:
        driver = at(pages[name], width)
        assert driver.execute_script(CUT) == [], width
        assert driver.execute_script(CELLS) == [], width
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_losses_use_the_width(at, pages):
    sides = """const [chart, words] = ['svg', 'figcaption'].map((part) => document.querySelector(`#losses figure ${part}`).getBoundingClientRect());
      return [chart.right <= words.left, chart.bottom <= words.top, words.right - chart.left, document.querySelector('main').clientWidth - 48];"""
    for width in (1400, 900):
        beside, _, used, whole = at(pages["good"], width).execute_script(sides)
        assert beside and used > 0.95 * whole
    assert at(pages["good"], 500).execute_script(sides)[1]


def test_a_long_name_keeps_its_start_and_its_end(at, pages):
    parts = """const name = [...document.querySelectorAll('#rows .name')].find((each) => each.textContent === arguments[0]);
      const boxes = [...name.children].map((part) => part.getBoundingClientRect());
      return [name.closest('[title]').title, name.firstChild.scrollWidth > name.firstChild.clientWidth, boxes[0].width > 20,
        boxes[1].right <= name.getBoundingClientRect().right + 1, name.lastChild.textContent];"""
    for width in WIDTHS:
        found = at(pages["wild"], width).execute_script(parts, NAME)
        assert found[0] == NAME and found[2:] == [True, True, "/MatMul"], width
    assert found[1]


@pytest.mark.parametrize("clipboard", [True, False])
def test_a_fix_is_copied_offline(at, pages, clipboard):
    driver = at(pages["bad"], 1400)
    driver.execute_script(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined})" if not clipboard else ""
    )
    driver.execute_script(
        "addEventListener('copy', () => { window.copied = getSelection().toString(); })"
    )
    texts = driver.execute_script(
        "return [...document.querySelectorAll('.facts [data-copy]')].map((code) =>"
        " code.dataset.copy)"
    )
    assert texts == [
        "graphmp audit models/net.ckpt.meta --data=feeds.npz --fix=net.policy",
        "--keep_float32='^g/worse$' --keep_float32='^a/Exp$'",
    ]
    driver.find_elements("css selector", ".facts .copy")[1].click()
    chromium.wait_for(
        driver, "return document.querySelectorAll('.facts .copy')[1].textContent === 'copied'"
    )
    assert driver.execute_script("return getSelection().toString()") == texts[1]
    assert clipboard or driver.execute_script("return window.copied") == texts[1]


def test_few_tensors_leave_no_empty_table(at, pages):
    heights = (
        "return [...document.querySelectorAll('#rows')].map((rows) =>"
        " rows.getBoundingClientRect().height)"
    )
    assert at(pages["bad"], 1400).execute_script(heights) == [120]
    assert at(pages["many"], 1400).execute_script(heights)[0] > 400
