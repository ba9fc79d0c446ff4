"""One browser for the tests of a page, and what holds for all of them."""

from __future__ import annotations

import pytest

from tests.support import chromium
from tests.support.page_in_browser import written
from tests.support.pages import sample, trained


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


@pytest.fixture(scope="module")
def sample_page(folder):
    return written(folder, "sample", sample())


@pytest.fixture
def page(browser, sample_page):
    """The sample, just opened."""
    chromium.open_page(browser, sample_page)
    return browser


@pytest.fixture(scope="module")
def trained_page(folder):
    return written(folder, "trained", trained())


@pytest.fixture
def scaled(browser, trained_page):
    """A conversion with a loss scale, just opened."""
    chromium.open_page(browser, trained_page)
    return browser
