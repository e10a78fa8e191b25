"""What several browser tests assert about a page."""

from __future__ import annotations

from playwright.sync_api import Page


def no_sideways_scroll(page: Page) -> None:
    """Fail when the page, as a whole, is wider than its window."""
    excess = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert excess <= 0, f"the page is {excess} px wider than its window"
