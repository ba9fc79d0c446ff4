"""One browser for the tests of a page, and what holds for all of them."""

import pytest

from tests.support import chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = chromium.start_or_fail(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def is_silent(browser):
    """Whatever a test does, the console has nothing to say and nothing is loaded."""
    yield
    assert chromium.complaints(browser) == []
    assert chromium.requests(browser) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")
