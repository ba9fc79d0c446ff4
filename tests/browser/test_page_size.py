"""The page holds only rows in view, whatever the size of the graphs."""

from __future__ import annotations

import pytest

from tests.support import chromium
from tests.support.page_in_browser import key, press, rows, selected, written
from tests.support.pages import layers

chromium.skip_without_one()


@pytest.fixture(scope="module")
def large_page(folder):
    return written(folder, "large", layers(1000))


def count_rows(driver):
    return driver.execute_script("return document.querySelectorAll('[role=treeitem]').length")


def test_few_rows_are_in_the_document_however_many_there_are(browser, large_page):
    chromium.open_page(browser, large_page)
    found = [count_rows(browser)]
    press(browser, "e")
    found.append(count_rows(browser))
    for place in ("50000", "this.scrollHeight"):
        browser.execute_script(
            "const tree = document.getElementById('tree'); tree.scrollTop = %s"
            % place.replace("this", "tree")
        )
        browser.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )
        found.append(count_rows(browser))
    press(browser, "/", "relu", key("ENTER"), "n")
    found.append(count_rows(browser))
    assert all(10 < count < 200 for count in found), found
    assert browser.execute_script("return document.querySelectorAll('*').length") < 3000


def test_a_search_in_5000_nodes_is_instant(browser, large_page):
    chromium.open_page(browser, large_page)
    spent = browser.execute_script("""
      const box = document.getElementById('search');
      const start = performance.now();
      for (const text of ['r', 're', 'relu', 'relu layer9']) { box.value = text; box.dispatchEvent(new Event('input')); }
      return performance.now() - start;
    """)
    assert spent < 2000
    assert "found" in browser.execute_script("return document.getElementById('found').innerText")


def test_the_last_row_can_be_reached(browser, large_page):
    chromium.open_page(browser, large_page)
    press(browser, "e", key("END"))
    assert selected(browser) == rows(browser)[-1]
    assert browser.execute_script(
        "const row = document.querySelector('.row.selected').getBoundingClientRect(); return"
        " row.bottom <= innerHeight && row.top >= 0"
    )
