"""The translation chapter before its model is there, and after the server has gone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import _wait_until_alive, free_port

PATIENCE = 120_000  # a model is loaded, on a busy machine
LONG = "The old man who lives next door told us that he had never seen the sea before. " * 6


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server whose pages are up and whose models are not; its address and its process."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-c", "from app.cli import main; main()"]
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "serve", "--port", str(port)], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_alive(f"{address}/healthz", process, log)
            yield address, process
        finally:
            process.kill()
            process.wait(timeout=10)


def test_who_comes_early_waits_and_who_is_cut_off_is_told(
    starting: tuple[str, subprocess.Popen[bytes]], new_page: Callable[..., Page]
) -> None:
    address, process = starting
    page = new_page(allow=("ERR_", "network error", "Failed to fetch"))
    early: list[int] = []
    page.on("response", lambda response: early.append(response.status))
    page.goto(f"{address}/chapters/translate")
    expect(page.locator("#live .best")).to_have_text("Die Kinder spielen im Garten.")
    page.locator("#text").fill("It is late.")
    page.locator("h1").click()
    expect(page.locator("#live .best")).to_contain_text("spät", timeout=PATIENCE)
    expect(page).to_have_url(re.compile("[?]text=It%20is%20late[.]$"), timeout=PATIENCE)
    page.locator("#attention").scroll_into_view_if_needed()
    expect(page.locator("#attention .opened h3")).to_be_visible(timeout=PATIENCE)
    assert page.locator("#text").input_value() == "It is late."
    assert max(early) < 400  # nobody asked for what was not there

    page.locator("#beam_size").select_option("8")
    expect(page).to_have_url(re.compile("beam_size=8$"), timeout=PATIENCE)
    page.locator("#text").fill(LONG)
    expect(page.locator("#live .writing")).to_contain_text("Der", timeout=PATIENCE)
    process.kill()
    expect(page.locator("#translation-trouble")).to_contain_text("The connection broke")
    expect(page.locator("#live .caret")).to_have_count(0)
    assert page.locator("#text").input_value() == LONG


def test_who_came_early_and_does_not_scroll_gets_every_panel_once(
    starting: tuple[str, subprocess.Popen[bytes]], new_page: Callable[..., Page]
) -> None:
    address, _ = starting
    page = new_page()
    page.goto(f"{address}/chapters/translate")
    expect(page.locator("[data-waiting]").first).to_be_attached()
    expect(page.locator("[data-waiting]")).to_have_count(0, timeout=PATIENCE)
    page.wait_for_timeout(1000)  # the last answers
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4000)
    assert asked == []
