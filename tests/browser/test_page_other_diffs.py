"""Pages of diffs of other shapes: no changes, functions, unrelated graphs."""

from __future__ import annotations

from graphmp.compare.api import Diff
from graphmp.compare.changes import BodyPair
from tests.support import chromium
from tests.support.page_in_browser import key, press, rows, written
from tests.support.pages import sample, view

chromium.skip_without_one()


def test_a_diff_without_bodies(browser, folder):
    chromium.open_page(browser, written(folder, "bare", Diff(sample().changes)))
    assert "images_graphmp_float16" in rows(browser)
    press(browser, "e", "n", "g", "g")
    shown = browser.execute_script("return document.body.innerText")
    assert "unexplained" not in shown and "stale" not in shown


def test_identical_graphs(browser, folder):
    graph = view("a/b NoOp", "c NoOp ^a/b")
    chromium.open_page(
        browser, written(folder, "same", Diff((), bodies=(BodyPair("", graph, graph, {}),)))
    )
    press(browser, "e", "n", "N")
    shown = browser.execute_script("return document.body.innerText")
    assert "no changes" in shown and "The two graphs are the same" in shown
    chromium.open_page(browser, written(folder, "empty", Diff(())))
    press(browser, "e", "c", "j", "k", "n", "p", "N", "P", "o", "g", key("END"), key("ENTER"))
