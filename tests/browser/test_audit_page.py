"""The page of an audit in a browser.

Search, order, selection, keys, what it may not do, and how much of it is there at a time.
"""

from __future__ import annotations

import pytest

from graphmp.audit.render import html
from tests.support import chromium
from tests.support.audits import HOSTILE, audit, bad, good, hostile, many
from tests.support.page_in_browser import key, press

chromium.skip_without_one()
NAMES = "return [...document.querySelectorAll('#rows .row bdi')].map((name) => name.textContent)"
SELECTED = (
    "const name = document.querySelector('#rows .row[aria-selected=true] bdi'); return name &&"
    " name.textContent"
)
DETAILS = "return document.getElementById('details').innerText"
FOUND = "return document.getElementById('found').innerText"


@pytest.fixture(scope="module")
def bad_page(folder):
    return written(folder, "bad", bad())


@pytest.fixture(scope="module")
def large_page(folder):
    return written(folder, "large", many(5000))


@pytest.fixture
def page(browser, bad_page):
    chromium.open_page(browser, bad_page)
    return browser


def written(folder, name, found):
    path = folder / (name + ".html")
    path.write_text(html.render(found), encoding="utf-8")
    return path


def sort_by(driver, name):
    driver.execute_script(
        "[...document.querySelectorAll('#heads button')].find((b) => b.textContent ==="
        " arguments[0]).click()",
        name,
    )
    return driver.execute_script(
        "return [...document.querySelectorAll('#heads > *')].map((head) =>"
        " head.getAttribute('aria-sort'))"
    )


def shown(driver, selector):
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].some((element) =>"
        " element.getClientRects().length)",
        selector,
    )


def test_the_worst_stand_first_and_the_first_is_selected(page):
    assert page.execute_script(NAMES) == [each.range.row.name for each in bad().findings]
    assert page.execute_script(SELECTED) == "g/worse"
    details = page.execute_script(DETAILS)
    for part in (
        "9 values not finite, 12 overflow (12%), relative error 90%",
        "allow: MatMul is worth half precision",
        "--keep_float32='^g/worse$'",
    ):
        assert part in details


def test_a_column_sorts_and_again_turns_round(page):
    assert sort_by(page, "tensor")[0] == "ascending"
    assert page.execute_script(NAMES) == ["a/Exp", "a/infinite", "g/nan", "g/worse"]
    assert sort_by(page, "tensor")[0] == "descending"
    assert page.execute_script(NAMES)[0] == "g/worse"
    assert sort_by(page, "error")[2] == "descending"
    assert page.execute_script(NAMES)[:2] == ["g/worse", "a/Exp"]  # then those without a number
    assert sort_by(page, "error")[2] == "ascending"
    assert page.execute_script(NAMES)[:2] == ["a/Exp", "g/worse"]
    assert set(sort_by(page, "exponents")) == {"none", None}
    assert page.execute_script(NAMES) == [each.range.row.name for each in bad().findings]


def test_search_role_and_half_narrow_the_table(page):
    press(page, "/", "exp")
    assert page.execute_script(NAMES) == ["a/Exp"]
    assert page.execute_script(FOUND) == "1 of 4 tensors"
    press(page, " nothing")
    assert (
        page.execute_script("return document.getElementById('rows').innerText")
        == "Nothing matches."
    )
    choose = (
        "const box = document.getElementById(arguments[0]); box[arguments[1]] = arguments[2];"
        " box.dispatchEvent(new Event('input'))"
    )
    page.execute_script(choose, "search", "value", "")
    page.execute_script(choose, "role", "value", "activation")
    assert set(page.execute_script(NAMES)) == {"a/Exp", "a/infinite"}
    page.execute_script(choose, "half", "checked", True)
    assert page.execute_script(NAMES) == ["a/Exp"]


def test_keys_select_from_the_search_on(page):
    press(page, "/", "g/", key("ENTER"))
    assert page.execute_script(SELECTED) == "g/worse"
    found = []
    for pressed in ("j", key("ARROW_UP"), key("END"), key("HOME"), key("PAGE_DOWN"), "k"):
        press(page, pressed)
        found.append(page.execute_script(SELECTED))
    assert found == ["g/nan", "g/worse", "g/nan", "g/worse", "g/nan", "g/worse"]
    active = page.execute_script(
        "return"
        " document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).innerText"
    )
    assert "g/worse" in active


def test_a_click_shows_the_figure_and_the_flag_to_copy(page):
    page.execute_script(
        "[...document.querySelectorAll('#rows .row')].find((row) =>"
        " row.innerText.includes('a/Exp')).click()"
    )
    figure = "return document.querySelector('#details .figure')"
    assert (
        page.execute_script(figure + ".getAttribute('aria-label')")
        == "histogram of exponents of a/Exp"
    )
    assert page.execute_script(figure + ".querySelectorAll('.log .bar.overflows').length") == 1
    assert page.execute_script(figure + ".querySelector('.log .bar.overflows').getAttribute('d')")
    page.execute_script("document.querySelector('#details .copy').click()")
    assert page.execute_script("return getSelection().toString()") == "--keep_float32='^a/Exp$'"
    chromium.wait_for(
        page, "return document.querySelector('#details .copy').textContent !== 'copy'"
    )


def test_a_script_draws_what_the_page_draws(browser, folder):
    found = good()
    chromium.open_page(browser, written(folder, "good", found))
    bars = """const of = (place, axis) => [...document.querySelector(place).querySelectorAll(`${axis} .bar`)]
        .filter((bar) => bar.getAttribute('d')).map((bar) => [bar.getAttribute('class'), bar.getAttribute('d')]);
      const linear = (place) => [...document.querySelector(place).querySelectorAll('.linear .tick')].map((tick) => tick.textContent);
      return ['#worst article .figure', '#details .figure'].map((place) => [of(place, '.log'), of(place, '.linear'), linear(place)]);"""
    ours, theirs = browser.execute_script(bars)
    assert ours == theirs and len(ours[0]) == 3


def test_the_axis_is_logarithmic_or_linear(page):
    assert shown(page, ".figure .log .tick") and not shown(page, ".figure .linear .tick")
    page.execute_script("document.getElementById('linear').click()")
    assert shown(page, ".figure .linear .tick") and not shown(page, ".figure .log .tick")


def test_names_are_text(browser, folder):
    chromium.open_page(browser, written(folder, "hostile", hostile()))
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    everything = browser.execute_script("return document.body.innerText")
    assert "</script><script>alert(1)</script><img src=x onerror=alert(1)>" in everything
    assert "\u202e" not in everything and "\x1b" not in everything and HOSTILE not in everything


def test_without_scripts_the_worst_tensors_stand_where_the_table_would(browser, bad_page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(bad_page.as_uri())
        everything = browser.find_element("tag name", "body").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert (
        "The worst tensors" in everything
        and "--keep_float32='^g/worse$'" in everything
        and "Search" not in everything
    )


def test_paper_has_the_worst_tensors_too(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert shown(page, "#worst") and not shown(page, "#tensors")
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_an_audit_of_nothing_has_no_table(browser, folder):
    chromium.open_page(browser, written(folder, "empty", audit([], [])))
    assert not shown(browser, "#tensors") and shown(browser, "#worst")


def test_few_rows_are_in_the_document_however_many_there_are(browser, large_page):
    chromium.open_page(browser, large_page)
    rows = "return document.querySelectorAll('#rows .row').length"
    found = [browser.execute_script(rows)]
    press(browser, "/", "sigmoid", key("ENTER"), key("END"))
    found.append(browser.execute_script(rows))
    assert all(10 < count < 60 for count in found), found
    assert browser.execute_script("return document.querySelectorAll('*').length") < 3000
    selected = browser.execute_script(
        """const row = document.querySelector('.row[aria-selected=true]').getBoundingClientRect();
      const rows = document.getElementById('rows').getBoundingClientRect(); return row.bottom <= rows.bottom && row.top >= rows.top"""
    )
    assert selected


def test_search_and_order_of_5000_tensors_are_instant(browser, large_page):
    chromium.open_page(browser, large_page)
    spent = browser.execute_script("""
      const box = document.getElementById('search');
      const start = performance.now();
      for (const text of ['m', 'matmul', 'matmul cell_1', '']) { box.value = text; box.dispatchEvent(new Event('input')); }
      for (const button of document.querySelectorAll('#heads button')) button.click();
      return performance.now() - start;
    """)
    assert spent < 2000


@pytest.mark.parametrize("width, height", [(1280, 800), (1920, 1080), (480, 800)])
def test_nothing_sticks_out(browser, bad_page, width, height):
    chromium.resize(browser, width, height)
    try:
        chromium.open_page(browser, bad_page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        chromium.resize(browser, *chromium.WIDE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_scheme(browser, bad_page, scheme):
    chromium.prefer(browser, scheme)
    try:
        chromium.open_page(browser, bad_page)
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    finally:
        chromium.prefer(browser, "light")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
