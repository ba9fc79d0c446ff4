"""Names on the page keep their start, and 500 pixels of width are enough."""

from __future__ import annotations

import pytest

from tests.support import chromium
from tests.support.page_head import ask
from tests.support.page_in_browser import click, path_of, press, rows, written

chromium.skip_without_one()


def test_the_node_of_a_link_is_in_sight(scaled):
    chromium.open_page(scaled, path_of(scaled), "node=train/update_second&open=all")
    row, tree = scaled.execute_script("""
      return ['.row.selected', '#tree'].map((selector) => document.querySelector(selector).getBoundingClientRect());
    """)
    assert tree["top"] <= row["top"] and row["bottom"] <= tree["bottom"]


def test_a_name_keeps_its_start_and_its_end(browser, folder):
    chromium.open_page(browser, written(folder, "long", long_names()))
    shown = browser.execute_script("""
      const text = document.querySelector('.pattern-text');
      const [head, tail] = text.children;
      return [head.textContent, tail.textContent, head.scrollWidth > head.clientWidth, getComputedStyle(head).textOverflow,
        text.closest('.pattern').title, text.getBoundingClientRect().right <= text.closest('.pattern').getBoundingClientRect().right];
    """)
    assert shown[0].startswith("generator/") and shown[1] == "/MatMul"
    assert (
        shown[2:4] == [True, "ellipsis"]
        and shown[4].startswith("generator/" + "block/" * 20 + "MatMul")
        and shown[5]
    )


def long_names():
    """One change deep inside scopes."""
    from graphmp.compare.api import Diff
    from graphmp.compare.changes import BodyPair, Change
    from tests.support.pages import view

    name = "generator/" + "block/" * 20 + "MatMul"
    sides = view(name + " NoOp T=float32"), view(name + " NoOp T=float16")
    return Diff(
        (Change(name, "dtype", "float32", "float16", "why", "T", kind="allow"),),
        True,
        bodies=(BodyPair("", *sides, {}),),
    )


@pytest.mark.parametrize("size", [(500, 700), (1366, 600)])
def test_what_the_map_selects_comes_into_a_small_window(browser, trained_page, size):
    chromium.resize(browser, *size)
    try:
        chromium.open_page(browser, trained_page)
        click(browser, ".map-box[aria-label^='train:']")
        row = browser.execute_script(
            "return document.querySelector('.row.selected').getBoundingClientRect()"
        )
        assert row["top"] >= 0 and row["bottom"] <= size[1]
        assert browser.execute_script("return document.getElementById('tree').clientHeight") > 200
    finally:
        chromium.resize(browser, *chromium.WIDE)


def test_s_hides_the_summary(scaled):
    shown = (
        "return [document.getElementById('review').checkVisibility(),"
        " document.getElementById('toggle-review').getAttribute('aria-expanded')]"
    )
    found = [scaled.execute_script(shown)]
    for _ in range(2):
        press(scaled, "s")
        found.append(scaled.execute_script(shown))
    assert found == [[True, "true"], [False, "false"], [True, "true"]]


@pytest.mark.parametrize("width", [500, 360, 760, 900, 1000])
def test_little_room_is_used_without_scrolling_sideways(browser, trained_page, width):
    chromium.resize(browser, width, 900)
    try:
        chromium.open_page(browser, trained_page, "node=second/MatMul")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        cut = """
          const texts = [...document.querySelectorAll('.row .cell:not(.none) .name, #questions span, h1')];
          const isCut = (element) => element.checkVisibility() && element.clientWidth && element.scrollWidth > element.clientWidth + 1;
          return texts.filter(isCut).map((element) => element.textContent);
        """
        assert width < 500 or [name for name in browser.execute_script(cut) if len(name) < 12] == []
        row = "return document.querySelector('.row.selected').innerText.replace(/\\s+/g, ' ')"
        assert "float32→float16" in browser.execute_script(row).replace("→ ", "→")
    finally:
        chromium.resize(browser, *chromium.WIDE)


def test_questions_stay_above_what_scrolls_where_there_is_little_room(browser, trained_page):
    chromium.resize(browser, 500, 900)
    try:
        chromium.open_page(browser, trained_page)
        browser.execute_script("window.scrollTo(0, document.documentElement.scrollHeight)")
        place = browser.execute_script(
            "const box = document.querySelector('#ask').getBoundingClientRect(); return [box.top,"
            " box.bottom]"
        )
        assert 0 <= place[0] < place[1] <= 900
        click(browser, "#ask summary")
        ask(browser, "What stayed float32")
        assert rows(browser)
    finally:
        chromium.resize(browser, *chromium.WIDE)
