"""A live server, a real Chromium, and pages that fail on what a person's console would show.

    def test_edit(new_page):
        page = new_page(width=360)          # or javascript=False, color_scheme="dark", …
        page.goto("/chapters/three-positions")

Every page made so is watched until its test ends: an error or a blocked script in the console, an
uncaught exception, an answer of 500 or a request to any other host fails the test.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    Response,
    sync_playwright,
)

from app.paths import VENDOR
from tests.browser.chromium import find_chromium, is_root

WIDTHS = (360, 768, 1440)
HEIGHTS = {360: 740, 768: 1024, 1440: 900}

# The browser resolves no name and calls nobody: what a page needs comes from the server under test.
CHROMIUM_ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",  # containers give it 64 MB
    "--disable-domain-reliability",
    "--disable-gpu",  # an emulated card costs more than it draws
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-pings",
)

# A refused value is an answer, not an accident, though Chromium reports every 422 as an error.
REFUSED = "the server responded with a status of 422"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here, and run it last: the quick tests have failed by then if they will."""
    here = Path(__file__).parent
    browser = [item for item in items if here in item.path.parents]
    for item in browser:
        item.add_marker(pytest.mark.browser)
    items[:] = [item for item in items if here not in item.path.parents] + browser


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app as `explorable-attention serve` runs it, in a process of its own; its base URL."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    log = tmp_path_factory.mktemp("server") / "server.log"
    command = [sys.executable, "-c", "from app.cli import main; main()"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "serve", "--port", str(port)], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_alive(f"{address}/healthz", process, log)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=10)
    written = log.read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in written, f"the server wrote a traceback:\n{written[-5000:]}"


def _wait_until_alive(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"the server did not answer {url}:\n{log.read_text(encoding='utf-8')}")


@pytest.fixture(scope="session")
def playwright_driver() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright_driver: Playwright) -> Iterator[Browser]:
    path = find_chromium_or_fail()
    arguments = [*CHROMIUM_ARGUMENTS, *(["--no-sandbox"] if is_root() else [])]
    chromium = playwright_driver.chromium.launch(executable_path=path, args=arguments)
    yield chromium
    chromium.close()


def find_chromium_or_fail() -> str:
    """The path of a Chromium, or the one sentence that helps."""
    if path := find_chromium():
        return path
    raise RuntimeError("no Chromium is installed: `make test` gets one")


class NewPage(Protocol):
    """Makes a page; keyword arguments beyond these are Playwright's `new_context`'s."""

    def __call__(
        self, *, width: int = ..., javascript: bool = ..., allow: tuple[str, ...] = ..., **more: Any
    ) -> Page: ...


@pytest.fixture
def new_page(server: str, browser: Browser) -> Iterator[NewPage]:
    """A factory of watched pages, each in a context of its own, closed when the test ends.

    `allow` holds parts of console messages that the test provokes on purpose.
    """
    contexts = []
    problems: list[str] = []

    def make(
        *, width: int = 1440, javascript: bool = True, allow: tuple[str, ...] = (), **more: Any
    ) -> Page:
        context = browser.new_context(
            base_url=server,
            viewport={"width": width, "height": HEIGHTS.get(width, 900)},
            java_script_enabled=javascript,
            **more,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.set_default_navigation_timeout(90_000)
        _watch(page, problems, (REFUSED, *allow))
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


def _watch(page: Page, problems: list[str], allow: tuple[str, ...]) -> None:
    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(part in message.text for part in allow):
            where = message.location["url"]
            problems.append(f"console {message.type}: {message.text} ({where})")

    def on_request(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname != "127.0.0.1":
            problems.append(f"request to elsewhere: {request.url}")

    def on_response(response: Response) -> None:
        if response.status == 500:
            problems.append(f"500 from {response.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))
    page.on("request", on_request)
    page.on("response", on_response)


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """One watched page at 1440 px."""
    return new_page()


@pytest.fixture(params=WIDTHS, ids=lambda width: f"{width}px")
def width(request: pytest.FixtureRequest) -> int:
    """Runs the test at a phone's, a tablet's and a desktop's width."""
    return int(request.param)


@pytest.fixture(scope="session")
def axe() -> Callable[..., None]:
    """`axe(page)` fails with what axe-core finds: every rule, best practices included.

    Keyword arguments become axe's options. The script enters through the debugger's protocol, so
    that the page keeps the content security policy that it is served with.
    """
    source = (VENDOR / "axe-core" / "axe.min.js").read_text(encoding="utf-8")

    def check(page: Page, **options: Any) -> None:
        page.evaluate(f"{source}; undefined")
        result = page.evaluate("options => axe.run(document, options)", options)
        found = [
            f"{violation['id']} ({violation['impact']}): {violation['help']}\n"
            + "\n".join(f"    {node['html'][:200]}" for node in violation["nodes"][:5])
            for violation in result["violations"]
        ]
        assert not found, "\n".join(found)

    return check
