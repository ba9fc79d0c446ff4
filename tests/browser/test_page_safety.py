"""Names on the page execute nothing and load nothing."""

from __future__ import annotations

from graphmp.compare.render import html
from tests.support import chromium
from tests.support.page_in_browser import press, rows, selected, written
from tests.support.pages import HOSTILE, hostile, sample

chromium.skip_without_one()


def test_names_are_text(browser, folder):
    chromium.open_page(browser, written(folder, "hostile", hostile()))
    press(browser, "e", "j")
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    shown = browser.execute_script("return document.body.innerText")
    assert "</script><img src=x onerror=alert(1)>" in shown and "\\x1b[31m\\u202e&amp;" in shown
    assert "\u202e" not in shown and "\x1b" not in shown
    assert HOSTILE not in shown


def test_a_notebook_shows_the_page_in_a_sandbox(browser, folder):
    path = folder / "notebook.html"
    path.write_text(
        "<!DOCTYPE html><title>notebook</title>" + html.embed(sample().to_html()), encoding="utf-8"
    )
    browser.get(path.as_uri())
    browser.switch_to.frame(0)
    chromium.wait_for(browser, "return document.body.classList.contains('ready')")
    browser.find_element("id", "tree").click()  # which gives the frame the focus
    press(browser, "ggjn")
    assert selected(browser) is not None
    press(browser, "/", "relu")
    assert rows(browser) == ["library", "f", "y"]
    browser.execute_script(
        "document.querySelector('.row:last-of-type').click(); document.querySelector('#details"
        " .link').click()"
    )
    assert selected(browser) == "x"
    browser.execute_async_script(
        "setTimeout(arguments[0], 300)"
    )  # the address would be written now
    assert rows(browser)
    browser.switch_to.default_content()


def test_without_scripts_there_is_a_summary(browser, sample_page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(sample_page.as_uri())
        text = browser.find_element("tag name", "noscript").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "nothing divides by it" in text and "2 changes unexplained" in text.lower()


def test_a_browser_that_cannot_unpack_says_so(browser, sample_page):
    script = browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"}
    )
    try:
        browser.get("about:blank")
        browser.get(sample_page.as_uri())
        assert "DecompressionStream" in chromium.wait_for(
            browser, "return document.getElementById('failure').innerText"
        )
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
