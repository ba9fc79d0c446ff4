"""Claims on the page fold to a line; failed ones are open."""

from __future__ import annotations

import pytest

from tests.support import chromium
from tests.support.page_in_browser import click, key, press, written
from tests.support.pages import sample

chromium.skip_without_one()


@pytest.fixture(scope="module")
def sample_page(folder):
    return written(folder, "sample", sample())


def test_claims_are_a_line_and_failed_ones_are_not_folded(browser, sample_page):
    chromium.open_page(browser, sample_page)
    visible = (
        "return [...document.querySelectorAll('.claim')].filter((claim) =>"
        " claim.checkVisibility()).map((claim) => claim.textContent)"
    )
    assert browser.execute_script(
        "return document.querySelector('#other-claims summary').innerText"
    ).endswith("1 proved, 1 not applicable")
    assert (
        len(browser.execute_script(visible)) == 1
        and "nothing divides by it" in browser.execute_script(visible)[0]
    )
    browser.execute_script("document.querySelector('#other-claims summary').focus()")
    press(browser, key("ENTER"))
    assert len(browser.execute_script(visible)) == 3
    click(browser, "#other-claims summary")
    assert len(browser.execute_script(visible)) == 1
