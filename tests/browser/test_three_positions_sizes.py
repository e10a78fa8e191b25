"""The three-position chapter with other examples, widths and letters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect
from starlette.testclient import TestClient

from app.chapters.three_positions import load
from app.main import create_app
from app.settings import Settings
from tests.browser.checks import no_sideways_scroll
from tests.chapters.test_three_positions_examples import OWN, add, other

PATH = "/chapters/three-positions"


def test_an_example_of_any_size_fits_the_page(new_page: Callable, tmp_path: Path) -> None:
    """Four positions of six coordinates, three heads, long numbers: tables scroll, the page not."""
    add(tmp_path, "three_positions", OWN)
    add(tmp_path, "other", other(4, 6, 3))
    app = create_app(Settings(), chapters=[load(tmp_path)])
    query = "?example=other&x4=1,1,1,1,1,123456.789&show=concat.4.1"
    document = TestClient(app, base_url="http://a").get(PATH + query).text

    def answer(route: Route) -> None:
        route.fulfill(body=document, content_type="text/html; charset=utf-8")

    page = new_page()
    page.route("**/chapters/three-positions?example=other*", answer)
    page.goto(PATH + query)
    for width in (320, 500, 640, 768, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        no_sideways_scroll(page)
        verdict = page.locator(".verdict").bounding_box()
        last = page.locator(".verdict > div").last.bounding_box()
        assert abs(verdict["x"] + verdict["width"] - last["x"] - last["width"]) < 2, width


def test_text_may_be_set_wider(new_page: Callable) -> None:
    """WCAG 1.4.12: nothing is cut off where a reader spaces lines, words and letters."""
    page = new_page(width=320, bypass_csp=True)
    page.goto(f"{PATH}?x3=2,-1,1,0&show=head1.weights.3.3&step=8")
    page.add_style_tag(
        content="* { line-height: 1.5 !important; letter-spacing: 0.12em !important; "
        "word-spacing: 0.16em !important } p { margin-bottom: 2em !important }"
    )
    no_sideways_scroll(page)
    cut = page.evaluate(
        """() => [...document.querySelectorAll("main :is(p, h3, h4, a, label, button, li)")]
          .filter(e => {
            const scrolls = e.closest(".tables, .formula, .card, dialog");
            if (scrolls || e.closest(".visually-hidden, .what")) return false;
            return e.checkVisibility() && e.getBoundingClientRect().right > innerWidth;
          }).map(e => e.textContent.trim().slice(0, 60))"""
    )
    assert cut == []


@pytest.mark.parametrize("width", [320, 768, 1440])
def test_letters_of_a_chart_keep_their_size_and_stay_inside(new_page: Callable, width: int) -> None:
    page = new_page(width=width)
    page.goto(f"{PATH}?x3=-1000000,1,0,0")
    letters = page.locator("#sweep .chart text").evaluate_all(
        """all => all.map(text => {
          const box = text.getBoundingClientRect();
          const svg = text.closest("svg").getBoundingClientRect();
          const inside = box.left >= svg.left - 1 && box.right <= svg.right + 1;
          const scale = svg.width / text.closest("svg").viewBox.baseVal.width;
          return [text.textContent, inside, scale * parseFloat(getComputedStyle(text).fontSize)];
        })"""
    )
    assert len(letters) > 12
    assert [text for text, inside, _ in letters if not inside] == []
    assert [text for text, _, pixels in letters if not 10 <= pixels <= 13.5] == []


@pytest.mark.parametrize("width", [320, 360, 768])
def test_the_menu_of_files_opens_within_the_window(new_page: Callable, width: int) -> None:
    page = new_page(width=width)
    page.goto(PATH)
    page.locator(".menu summary").click()
    menu = page.locator(".menu ul").bounding_box()
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= width
    expect(page.locator(".menu a").first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_selected_row_of_the_weights_keeps_its_fill(new_page: Callable, theme: str) -> None:
    page = new_page(color_scheme=theme)
    page.goto(f"{PATH}?x3=2,-1,1,0")
    row = page.locator("[id='m-head1.weights'] tr.selected td")
    fills = row.evaluate_all("all => all.map(cell => getComputedStyle(cell).backgroundColor)")
    assert len(set(fills)) == 3
