"""Colours, contrast and layout of the page."""

from __future__ import annotations

import pytest

from tests.support import chromium
from tests.support.page_in_browser import CONTRAST, press

chromium.skip_without_one()


# The smallest contrast of text and what is behind it, and where.


@pytest.mark.parametrize("width, height", [(1280, 800), (1920, 1080), (480, 800)])
def test_nothing_sticks_out(browser, sample_page, width, height):
    chromium.resize(browser, width, height)
    try:
        chromium.open_page(browser, sample_page, "node=conv1/Conv2D")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script("return document.getElementById('tree').clientHeight") > 150
    finally:
        chromium.resize(browser, *chromium.WIDE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "place",
    [
        "",
        "node=conv1/Conv2D",
        "node=summary/loss&status=unexplained",
        "node=loss&drawing=large",
        "node=conv2/kernel",
    ],
)
def test_text_stands_out_in_both_schemes(browser, sample_page, scheme, place):
    chromium.prefer(browser, scheme)
    try:
        chromium.open_page(browser, sample_page, place)
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        contrast, where = browser.execute_script(CONTRAST)
    finally:
        chromium.prefer(browser, "light")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert contrast >= 4.5, where


def test_the_tree_speaks_to_screen_readers(page):
    press(page, "j")
    tree = page.execute_script(
        "const tree = document.getElementById('tree'); return [document.activeElement === tree,"
        " tree.getAttribute('aria-activedescendant')]"
    )
    assert tree == [True, page.execute_script("return document.querySelector('.row.selected').id")]
    found = page.execute_script(
        """return [...document.querySelectorAll('[role=treeitem]')].slice(0, 3).map((row) =>
      ['aria-level', 'aria-posinset', 'aria-setsize', 'aria-expanded', 'aria-selected'].map((name) => row.getAttribute(name)))"""
    )
    assert found == [
        ["1", "1", "12", "true", "true"],
        ["2", "1", "3", None, "false"],
        ["2", "2", "3", None, "false"],
    ]
