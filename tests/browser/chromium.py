"""A real browser without a window, and what the tests ask of it."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars "
    "--window-size=1280,1000"
)
PATIENCE = 60  # seconds: other tests keep the machine busy


class Browser:
    """Chromium, with the questions that tests have."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str | Path) -> None:
        # The page before asks its server for events until it is left, also when the server is gone.
        self.driver.get("about:blank")
        self.log()
        self.requests()
        self.driver.get(url.as_uri() if isinstance(url, Path) else url)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any) -> Any:
        """Until the script returns something true, which is given back."""
        return WebDriverWait(self.driver, PATIENCE, 0.05).until(
            lambda driver: driver.execute_script(script, *arguments)
        )

    def ready(self) -> None:
        """Until every part of the page is drawn: that of a fix or a watch holds the page of a diagnosis."""
        self.wait(
            "const undone = document.querySelector('article:not([data-ready])');"
            "return document.querySelector('article[data-ready]') && !undone"
        )

    def click(self, selector: str) -> None:
        """A click as the page sees it; marks of an SVG have no `click()` of their own."""
        self.run(
            "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", selector
        )

    def marks(self, selector: str, *names: str) -> list[dict[str, str | None]]:
        """Attributes of all elements that match."""
        return self.run(
            "const names = arguments[1]; return [...document.querySelectorAll(arguments[0])].map("
            "element => Object.fromEntries(names.map(name => [name, element.getAttribute(name)])))",
            selector,
            list(names),
        )

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def log(self) -> list[str]:
        """What was written to the console since the last look."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last look, by the browser's own account."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        # Its own start page may still be loading on a busy machine; no other page may ask for chrome://. What is in
        # a data: address is in the page already, and nothing is asked of anyone.
        return [url for url in asked if not url.startswith(("chrome://", "data:"))]

    def screenshot(self, name: str, height: int = 1000) -> Path:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.set_window_size(1280, height)
        path = SCREENSHOTS / f"{name}.png"
        assert self.driver.save_screenshot(str(path))
        return path


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile, and no window."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    # Not skipped: a page that nobody has looked at may be blank, and Python would not know.
    assert binary is not None, "tests of the page need chromium: run `make browser`"
    assert driver is not None, "tests of the page need chromedriver: run `make browser`"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in [*_FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(driver))
    running.set_page_load_timeout(PATIENCE)
    running.set_script_timeout(PATIENCE)
    try:
        yield Browser(running)
    finally:
        running.quit()
