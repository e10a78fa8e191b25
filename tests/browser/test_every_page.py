"""What holds for each page and embed, however many chapters there are.

The registry is the list: a chapter that is added is looked at here without another line.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.chapters import CHAPTERS
from tests.browser.checks import no_sideways_scroll

PAGES = ["/", *(f"/chapters/{chapter.slug}" for chapter in CHAPTERS)]
EMBEDS = [f"/embed/{chapter.slug}/{panel.slug}" for chapter in CHAPTERS for panel in chapter.panels]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(
    new_page: Callable, axe: Callable, path: str, width: int, theme: str
) -> None:
    page = new_page(width=width, color_scheme=theme, reduced_motion="reduce")
    page.goto(path)
    axe(page)
    no_sideways_scroll(page)


@pytest.mark.parametrize(
    ("path", "theme"), [(path, ("light", "dark")[count % 2]) for count, path in enumerate(EMBEDS)]
)
def test_axe_finds_nothing_in_an_embed(
    new_page: Callable, axe: Callable, path: str, theme: str
) -> None:
    page = new_page(width=360, reduced_motion="reduce")
    page.goto(f"{path}?theme={theme}")
    axe(page)
    no_sideways_scroll(page)


@pytest.mark.parametrize("path", [*PAGES, *EMBEDS])
def test_complete_without_scripts(new_page: Callable, path: str) -> None:
    page = new_page(javascript=False)
    answer = page.goto(path)
    assert answer.ok
    assert page.locator("main").inner_text().strip()
    assert page.title().strip()


@pytest.mark.parametrize("path", PAGES)
def test_the_first_stop_of_the_keyboard_is_the_content(new_page: Callable, path: str) -> None:
    page = new_page()
    page.goto(path)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    target = page.evaluate("document.querySelector(location.hash)?.tagName")
    assert target == "MAIN"


@pytest.mark.parametrize("path", PAGES)
def test_text_at_twice_its_size_still_fits(new_page: Callable, path: str) -> None:
    """WCAG 1.4.4 and 1.4.10: 200 % on a 720 px window is a reader's 360."""
    page = new_page(width=720)
    page.goto(path)
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    no_sideways_scroll(page)
