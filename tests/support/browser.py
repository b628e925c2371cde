"""Opening pages in headless Chromium, by Playwright, with axe-core for accessibility.

`make browser` installs what is needed. Without it, tests that need a browser are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

AXE = Path(os.environ.get("WEFT_AXE", ROOT / ".browser" / "node_modules" / "axe-core" / "axe.min.js"))
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SCREENS = {
    "wide": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "dark"},
}


def chromium() -> str | None:
    """The program, if it is installed."""
    named = os.environ.get("WEFT_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def required() -> bool:
    """Whether these tests must not be skipped: CI sets the variable after `make browser`."""
    return os.environ.get("WEFT_BROWSER") == "1"


def missing() -> str | None:
    """Why pages cannot be opened; None: they can."""
    if chromium() is None:
        return "Chromium is not installed; type: make browser"
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed; type: pip install playwright"
    if not AXE.is_file():
        return f"axe-core is not in {AXE}; type: make browser"
    return None


@dataclass
class Opened:
    """A page in the browser.

    Attributes:
        page: Playwright's page.
        errors: what went to the console, and exceptions of scripts.
        requests: the addresses that the page asked for, itself first.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def accessibility(self, *impacts: str) -> list[str]:
        """What axe-core finds of some impacts, such as `serious`."""
        # by the browser's own protocol: the page's policy forbids foreign scripts
        self.page.evaluate(AXE.read_text(encoding="utf-8") + "\n;0")
        found = self.page.evaluate("axe.run()")
        return [
            f"{rule['id']} ({rule['impact']}): {rule['help']}: {rule['nodes'][0]['html'][:200]}"
            for rule in found["violations"]
            if rule["impact"] in impacts
        ]

    def clipped(self) -> list[str]:
        """Pictures that have no size, and whether the page itself scrolls sideways."""
        return self.page.evaluate(
            """() => {
                const bad = [...document.querySelectorAll('svg[role=img]')].filter((svg) => {
                    const closed = svg.closest('details:not([open]), [hidden]');
                    const box = svg.getBoundingClientRect();
                    return !closed && (box.width < 20 || box.height < 20);
                }).map((svg) => svg.querySelector('title').textContent);
                const root = document.documentElement;
                return root.scrollWidth > root.clientWidth ? [...bad, 'the page scrolls sideways'] : bad;
            }"""
        )


@contextmanager
def browser() -> Iterator[Any]:
    """A browser that is closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(started: Any, file: Path, screen: str = "wide") -> Iterator[Opened]:
    """A page of a file on a screen, loaded."""
    context = started.new_context(**SCREENS[screen], offline=True)
    try:
        shown = Opened(context.new_page())
        shown.page.on("console", lambda message: shown.errors.append(message.text))
        shown.page.on("pageerror", lambda wrong: shown.errors.append(str(wrong)))
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.goto(file.resolve().as_uri())
        yield shown
    finally:
        context.close()
