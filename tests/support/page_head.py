"""The questions on the page in a browser."""

from __future__ import annotations


def focused(driver):
    """The label of the focused element."""
    return driver.execute_script(
        "return document.activeElement.getAttribute('aria-label') || "
        "document.activeElement.textContent"
    )


def ask(driver, question):
    driver.execute_script(
        "[...document.querySelectorAll('.question')].find((b) => "
        "b.innerText.startsWith(arguments[0])).click()",
        question,
    )
