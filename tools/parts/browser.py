"""Headless Chromium driven by Selenium, with Debian's chromium and chromium-driver.

Needs the package selenium.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import time
from typing import Any, List

WIDE = (1280, 800)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str:
    """The requirements of a browser that this machine lacks; empty if it has all."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return "%s not found" % " and ".join(lacking) if lacking else ""


def start(profile: pathlib.Path) -> Any:
    """A browser with a new, empty profile in the folder `profile`.

    It logs its console and its requests.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, "--user-data-dir=%s" % profile):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    resize(driver, *WIDE)
    driver.get("about:blank")
    driver.get_log("performance")  # of the browser's start page
    return driver


def resize(driver: Any, width: int, height: int) -> None:
    """Set the size of the page, in pixels."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )


def prefer(driver: Any, scheme: str) -> None:
    """Emulate the colour scheme `light` or `dark`."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def open_page(driver: Any, path: pathlib.Path, state: str = "") -> None:
    """Load the page of a diff anew, with `state` as the URL fragment, and wait for its tree."""
    driver.get("about:blank")
    driver.get(pathlib.Path(path).as_uri() + ("#" + state if state else ""))
    wait_for(driver, "return document.body.classList.contains('ready')")


def wait_for(driver: Any, script: str, seconds: float = 10) -> Any:
    """Wait until a script returns a true value, and return this value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = driver.execute_script(script)
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("not within %d s: %s" % (seconds, script))


def requests(driver: Any) -> List[str]:
    """Addresses requested since the log was last read, without the local pages and data URLs."""
    messages = [json.loads(row["message"])["message"] for row in driver.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in asked if not url.startswith(("file:", "about:", "data:"))]


def complaints(driver: Any) -> List[str]:
    """The messages on the console."""
    return [row["message"] for row in driver.get_log("browser")]
