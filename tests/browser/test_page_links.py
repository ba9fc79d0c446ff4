"""The address of the page holds the place that is shown."""

from __future__ import annotations

import pytest

from tests.support import chromium
from tests.support.page_in_browser import key, path_of, press, rows, selected

chromium.skip_without_one()


def state(driver):
    """What stands behind #, once it is written."""
    chromium.wait_for(driver, "return location.hash.length > 1")
    driver.execute_async_script("setTimeout(arguments[0], 300)")
    return driver.execute_script("return location.hash.slice(1)")


def test_the_address_brings_others_to_the_same_place(page):
    press(page, "c", "/", "conv2d", key("ENTER"), "o", "g")
    page.execute_script(
        "[...document.querySelectorAll('.choice')].find((b) =>"
        " b.innerText.startsWith('allow')).click()"
    )
    press(page, "n")
    before = (state(page), rows(page), selected(page))
    chromium.open_page(page, path_of(page), before[0])
    assert (state(page), rows(page), selected(page)) == before
    assert page.execute_script("return document.body.classList.contains('large-drawing')")


def test_a_new_address_is_followed(page):
    page.execute_script("location.hash = 'node=library/f/y'")
    chromium.wait_for(
        page, "return document.querySelector('#details h2')?.innerText === 'library/f/y'"
    )


@pytest.mark.parametrize(
    "wrong",
    ["node=nothing&kind=nonsense&pattern=99&open=all.zz.-1.x&drawing=huge", "%E0%A4%A", "&&==&"],
)
def test_an_address_that_names_nothing_is_harmless(page, wrong):
    chromium.open_page(page, path_of(page), wrong)
    assert rows(page)
