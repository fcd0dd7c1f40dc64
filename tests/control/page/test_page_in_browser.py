"""The page in a real browser updates itself, shows when it cannot, and has no findings of the accessibility checker axe.

Needs Chromium (Debian: chromium) and `pip install playwright axe-playwright-python`: CONTRIBUTING.md.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import stuntbroker
from stuntbroker.fixture.broker import Broker

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_MS = 10_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.broker(topics={"payments": 1}) as running:
        running.produce("payments", "42 EUR")
        running.seed(hanging={"topic": "payments", "partition": 0, "values": ["never ended"]})
        yield running


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    with chromium.new_context() as context:
        opened = context.new_page()
        opened.set_default_timeout(WAIT_MS)
        yield opened


def test_changes_are_shown_without_a_reload_of_the_page(broker: Broker, page: Any) -> None:
    page.goto(broker.control_url)
    page.wait_for_selector("text=Live: changes are shown within a second.")
    broker.stops.park("txn.reply")
    page.wait_for_selector("text=park at txn.reply")
    page.click("text=Remove stop-1")
    page.wait_for_selector("text=Nothing goes wrong on purpose.")
    assert broker.stops.all() == []


def test_an_update_of_the_page_keeps_the_focus_on_its_button(broker: Broker, page: Any) -> None:
    for point in ("txn.reply", "fetch.before"):
        broker.stops.park(point)
    page.goto(broker.control_url)
    page.focus("text=Remove stop-2")
    broker.stops.park("metadata.before")
    page.wait_for_selector("text=park at metadata.before")
    assert page.evaluate("document.activeElement.textContent") == "Remove stop-2"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=park at fetch.before", state="detached")
    assert [each["point"] for each in broker.stops.all()] == ["txn.reply", "metadata.before"]


def test_old_state_is_never_shown_as_live(broker: Broker, page: Any) -> None:
    page.goto(broker.control_url)
    page.wait_for_selector("text=Live: changes are shown within a second.")
    broker.close()
    page.wait_for_selector("text=The connection to the broker is lost. What is shown is how it was at")
    assert "Live" not in page.inner_text("#connection")


def test_without_javascript_the_page_shows_the_time_of_its_state(broker: Broker, chromium: Any) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(broker.control_url)
        assert page.inner_text("#connection").startswith("This is how it was at ")
        page.click("text=Stop time")
        assert broker.clock.is_paused


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/page/partitions/payments/0", "/page/transactions/nobody"])
def test_axe_finds_no_violations(path: str, scheme: str, broker: Broker, chromium: Any) -> None:
    with chromium.new_context(color_scheme=scheme, bypass_csp=True) as context:
        page = context.new_page()
        page.goto(broker.control_url + path)
        rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
        results = axe_api.Axe().run(page, options=rules)
        assert results.violations_count == 0, results.generate_report()


def test_every_control_is_reached_by_the_keyboard(broker: Broker, page: Any) -> None:
    broker.stops.park("txn.reply")
    page.goto(broker.control_url)
    wanted = page.evaluate("document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea').length")
    reached = set()
    for _ in range(2 * wanted):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("(e => e.outerHTML.slice(0, 200) + e.getBoundingClientRect().y)(document.activeElement)")
        )
    assert len(reached) >= wanted


def test_this_chromium_starts() -> None:
    """If the browser cannot start, the failures of the tests above are hard to understand."""
    assert CHROMIUM is not None
    done = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
