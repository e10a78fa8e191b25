"""Questions that are not answered, and what a page says and does then."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

PATH = "/chapters/three-positions"


def wait_for_state(page: Page, query: str) -> None:
    page.wait_for_function("query => location.search === query", arg=query)


def test_a_number_that_could_not_be_opened_takes_no_focus_later(new_page: Callable) -> None:
    page = new_page(allow=("Failed to load resource", "Failed to fetch"))
    page.goto(PATH)
    page.route("**/panels/bench*", lambda route: route.abort(), times=1)
    page.locator("[id='head1.weights.3.3']").click()
    expect(page.locator("#bench [data-trouble]")).to_be_visible()
    page.locator("#x3-1").fill("2")
    wait_for_state(page, "?x3=2,1,0,0&show=head1.weights.3.3")
    expect(page.locator("#x3-1")).to_be_focused()
    expect(page.locator("#bench [data-trouble]")).to_be_hidden()


def test_a_panel_alone_says_that_no_answer_came(new_page: Callable) -> None:
    page = new_page(allow=("Failed to load resource", "Failed to fetch"))
    page.goto("/embed/three-positions/steps")
    page.route("**/panels/steps*", lambda route: route.fulfill(status=503), times=1)
    page.locator("#steps-next").click()
    expect(page.locator("#steps [data-trouble]")).to_contain_text("could not be fetched")
    page.locator("#steps-next").click()
    expect(page.locator("#steps h3")).to_have_text("Step 2 of 10: Project")
    expect(page.locator("#steps [data-trouble]")).to_be_hidden()


def test_a_quiz_alone_answers_in_place(page: Page) -> None:
    page.goto("/embed/three-positions/quiz?x3=2,-1,1,0&theme=dark")
    page.evaluate("window.same = true")
    page.locator("#guess1").fill("1.414")
    page.locator("#guess1").press("Enter")
    expect(page.locator("#guess1-answer")).to_contain_text("Right.")
    wait_for_state(page, "?x3=2,-1,1,0&guess1=1.414&theme=dark")
    page.locator(".question").nth(4).get_by_role("button", name="Show me").click()
    expect(page.locator("#guess5-answer")).not_to_be_empty()
    assert page.evaluate("window.same")


def test_an_edit_there_and_back_takes_the_answers_with_it(new_page: Callable) -> None:
    """The address loses a prediction at an edit, so the questions lose it too."""
    page = new_page()
    page.goto(f"{PATH}?x3=2,1,0,0")
    page.locator("#guess1").fill("1.4")
    page.locator("#guess1").press("Enter")
    expect(page.locator("#guess1-answer")).not_to_be_empty()
    expect(page).to_have_url(re.compile("guess1=1.4"))
    page.locator("#x3-1").fill("abc")
    expect(page.locator("#x3-1")).to_have_attribute("aria-invalid", "true")
    page.locator("#x3-1").fill("2")
    wait_for_state(page, "?x3=2,1,0,0")
    page.locator("#quiz").scroll_into_view_if_needed()
    expect(page.locator("#guess1-answer")).to_be_empty()
