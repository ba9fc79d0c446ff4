"""Chromium without a window, driven by Selenium: Debian's chromium and chromium-driver, and the package selenium."""

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
    """What a browser needs and this machine lacks; empty if nothing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return "%s not found" % " and ".join(lacking) if lacking else ""


def start(profile: pathlib.Path) -> Any:
    """A browser with a new empty profile in the folder `profile`; it keeps logs of its console and of its requests."""
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
    driver.get_log("performance")  # of the page that the browser starts with
    return driver


def resize(driver: Any, width: int, height: int) -> None:
    """The size of the page in pixels."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )


def prefer(driver: Any, scheme: str) -> None:
    """Light or dark."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def open_page(driver: Any, path: pathlib.Path, state: str = "") -> None:
    """Loads a diff's page anew, with what is to stand behind #, and waits until its tree is there."""
    driver.get("about:blank")
    driver.get(pathlib.Path(path).as_uri() + ("#" + state if state else ""))
    wait_for(driver, "return document.body.classList.contains('ready')")


def wait_for(driver: Any, script: str, seconds: float = 10) -> Any:
    """Waits until a script returns something true, and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = driver.execute_script(script)
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("not within %d s: %s" % (seconds, script))


def requests(driver: Any) -> List[str]:
    """Addresses of all that was asked for since the log was read last, but for pages and data in files of this machine."""
    messages = [json.loads(row["message"])["message"] for row in driver.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in asked if not url.startswith(("file:", "about:", "data:"))]


def complaints(driver: Any) -> List[str]:
    """What the console has to say."""
    return [row["message"] for row in driver.get_log("browser")]
