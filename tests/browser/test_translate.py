"""The translation chapter in a real browser, with the checkpoint that is shipped."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.checks import no_sideways_scroll

PATH = "/chapters/translate"
PATIENCE = 60_000  # a busy machine


@pytest.fixture(autouse=True)
def ready(server: str) -> None:
    """Wait until the models are loaded."""
    import time
    from urllib.error import HTTPError

    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            with urlopen(f"{server}/readyz") as answer:
                if answer.status == 200:
                    return
        except HTTPError:
            time.sleep(0.3)
    raise AssertionError("the models are not ready")


def visit(page: Page, query: str = "") -> Page:
    page.set_default_timeout(PATIENCE)
    page.goto(PATH + query)
    return page


def wait_for_state(page: Page, query: str) -> None:
    page.wait_for_function("query => location.search === query", arg=query, timeout=PATIENCE)


def test_a_typed_sentence_is_translated_and_stands_in_the_address(page: Page) -> None:
    visit(page)
    page.locator("#text").fill("I have a dog.")
    wait_for_state(page, "?text=I%20have%20a%20dog.")
    expect(page.locator("#live .best")).to_contain_text("Hund", timeout=PATIENCE)
    expect(page.locator(".nbest tbody tr")).to_have_count(4)
    page.locator("#attention").scroll_into_view_if_needed()
    expect(page.locator("#attention .weights tbody tr")).to_have_count(
        page.locator(".nbest tr.selected .token").count(), timeout=PATIENCE
    )


def test_enter_translates_and_an_example_replaces_the_text(page: Page) -> None:
    visit(page, "?text=Hello.")
    page.get_by_role("link", name="The cat saw the cat.").click()
    wait_for_state(page, "?text=The%20cat%20saw%20the%20cat.")
    expect(page.locator("#text")).to_have_value("The cat saw the cat.")
    page.locator("#text").fill("It rains.")
    page.locator("#text").press("Enter")
    wait_for_state(page, "?text=It%20rains.")


def test_search_and_model_follow_their_controls(page: Page) -> None:
    visit(page)
    page.locator("#beam_size").select_option("1")
    wait_for_state(page, "?beam_size=1")
    expect(page.locator(".nbest tbody tr")).to_have_count(1, timeout=PATIENCE)
    page.locator("#model-en-fr").check()
    wait_for_state(page, "?model=en-fr&beam_size=1")
    expect(page.locator("#live .best")).to_contain_text("enfants", timeout=PATIENCE)
    expect(page.locator("#live .best")).to_have_attribute("lang", "fr")


def test_a_refused_value_stands_beside_its_field_and_the_text_is_kept(page: Page) -> None:
    visit(page)
    page.locator("#alpha").fill("9")
    expect(page.locator("#alpha-problems")).to_contain_text("from 0 to 2", timeout=PATIENCE)
    page.locator("#alpha").fill("0.6")
    expect(page.locator("#alpha-problems")).to_be_hidden(timeout=PATIENCE)
    page.locator("#text").fill("x" * 600)
    expect(page.locator("#text-problems")).to_contain_text("600 characters", timeout=PATIENCE)
    expect(page.locator("#text")).to_have_value("x" * 600)


def test_a_head_opens_as_a_table_whose_rows_sum_to_one(page: Page) -> None:
    visit(page)
    page.locator("[id='see-encoder.1.2']").click()
    wait_for_state(page, "?head=encoder.1.2")
    expect(page.locator("#attention .opened h3")).to_have_text(
        "Encoder self-attention, layer 1, head 2", timeout=PATIENCE
    )
    sums = page.locator("#attention .weights tbody td:last-child").all_inner_texts()
    assert sums
    assert all(total in ("1.0000", "0.9999", "1.0001") for total in sums)


def test_a_changed_future_leaves_the_past_alone_to_the_last_bit(page: Page) -> None:
    visit(page, "?edit=3&to=Katze")
    verdicts = page.locator("#verdict b")
    expect(verdicts.nth(0)).to_have_text("Positions 1–3: identical to the last bit")
    expect(verdicts.nth(1)).to_have_text(re.compile(r"Positions 4–\d+: changed"))
    expect(verdicts.nth(2)).to_have_text("Encoder: identical to the last bit")
    page.locator("#ask").scroll_into_view_if_needed()
    page.locator("#ask #mask-all").check()
    wait_for_state(page, "?mask=all&edit=3&to=Katze")
    expect(verdicts.nth(0)).to_have_text(re.compile("Positions 1–.*: changed"), timeout=PATIENCE)


def test_heads_are_silenced_by_checkbox(page: Page) -> None:
    visit(page)
    page.locator("#ask summary").first.click()
    page.locator("#ask input[value='cross.3.1']").check()
    wait_for_state(page, "?silence=cross.3.1")
    expect(page.locator("#verdict")).to_contain_text("One head is silent", timeout=PATIENCE)
    page.locator("#ask").get_by_role("link", name="Undo everything").click()
    wait_for_state(page, "")
    expect(page.locator("#verdict")).to_have_count(0, timeout=PATIENCE)
    expect(page.locator("#ask input[value='cross.3.1']")).not_to_be_checked()


def test_heads_are_ranked_and_the_cache_is_measured_on_demand(page: Page) -> None:
    visit(page)
    page.get_by_role("link", name="Silence each head once").click()
    wait_for_state(page, "?rank=true")
    rows = page.locator("#heads tbody tr")
    expect(rows).to_have_count(page.locator(".heads-eye").count(), timeout=PATIENCE)
    page.get_by_role("link", name="Write it both ways").click()
    wait_for_state(page, "?rank=true&cache=true")
    expect(page.locator("#cache .said")).to_contain_text("The same logits", timeout=PATIENCE)


def test_case_20_back_and_reload_bring_the_whole_page_in_the_same_state(page: Page) -> None:
    visit(page)
    page.locator("[id='see-cross.2.3']").click()
    wait_for_state(page, "?head=cross.2.3")
    page.goto("/")
    page.go_back()
    expect(page.locator("#attention .opened h3")).to_have_text(
        "Cross-attention, layer 2, head 3", timeout=PATIENCE
    )
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("#attention .opened h3")).to_have_text("Cross-attention, layer 2, head 3")
    assert page.locator("#text").input_value() == "The children are playing in the garden."


def test_everything_works_without_scripts(new_page: Callable[..., Page]) -> None:
    page = visit(new_page(javascript=False))
    page.locator("#text").fill("It rains.")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#live .best")).to_contain_text("regnet")
    page.locator("[id='see-decoder.1.1']").click()
    expect(page.locator("#attention .opened h3")).to_have_text(
        "Decoder self-attention, layer 1, head 1"
    )
    assert "text=It%20rains." in page.url
    page.locator("#ask #scaled-false").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#verdict")).to_contain_text("no longer divided by √dk")
    assert page.url.endswith("#ask")
    assert "text=It+rains." in page.url


def test_of_several_quick_questions_the_last_one_counts(page: Page) -> None:
    visit(page)
    for head in range(1, 5):
        page.evaluate("id => document.getElementById(id).click()", f"see-encoder.1.{head}")
    wait_for_state(page, "?head=encoder.1.4")
    expect(page.locator("#attention .opened h3")).to_have_text(
        "Encoder self-attention, layer 1, head 4", timeout=PATIENCE
    )


def test_a_late_answer_to_another_panel_does_not_take_the_address_back(page: Page) -> None:
    late: list[Route] = []
    visit(page)
    page.route("**/panels/next-tokens*", lambda route: late.append(route))
    page.locator("#next-tokens").scroll_into_view_if_needed()
    page.locator("[id='see-cross.1.1']").click()
    wait_for_state(page, "?head=cross.1.1")
    page.wait_for_timeout(300)
    assert late
    page.locator("[id='see-cross.2.1']").click()
    wait_for_state(page, "?head=cross.2.1")
    for route in late:
        route.continue_()
    page.unroute("**/panels/next-tokens*")
    page.wait_for_timeout(1500)
    wait_for_state(page, "?head=cross.2.1")
    expect(page.locator("#attention .opened h3")).to_have_text("Cross-attention, layer 2, head 1")


def test_a_link_in_a_panel_that_has_not_followed_yet_changes_its_own_field(page: Page) -> None:
    late: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if late:
            route.continue_()
        else:
            late.append(route)

    visit(page)
    page.route("**/panels/next-tokens*", hold_the_first)
    page.locator("[id='see-cross.1.1']").click()
    wait_for_state(page, "?head=cross.1.1")
    page.locator(".steps-list tbody tr:nth-child(3) a").click()
    wait_for_state(page, "?head=cross.1.1&position=3")
    assert late


def test_a_refused_text_is_kept_while_something_else_is_looked_at(page: Page) -> None:
    visit(page)
    page.locator("#text").fill("x" * 501)
    expect(page.locator("#text-problems")).to_contain_text("501 characters", timeout=PATIENCE)
    page.locator("[id='see-encoder.1.2']").click()
    wait_for_state(page, "?head=encoder.1.2")
    page.locator("#text").scroll_into_view_if_needed()
    page.wait_for_timeout(1000)
    assert page.locator("#text").input_value() == "x" * 501
    expect(page.locator("#text-problems")).to_contain_text("501 characters")


def test_an_embed_stays_whole_and_the_lesson_shows_the_other_panels(page: Page) -> None:
    page.set_default_timeout(PATIENCE)
    page.goto("/embed/translate/heads?rank=true&theme=dark")
    with page.expect_popup() as opened:
        page.locator("#heads tbody a").first.click()
    expect(opened.value.locator("#attention .opened h3")).to_be_visible()
    assert "theme" not in opened.value.url
    page.get_by_role("link", name="Hide the ranking").click()
    wait_for_state(page, "?theme=dark")
    page.wait_for_timeout(500)
    expect(page.locator("h2")).to_have_text("Which heads matter for this sentence")


@pytest.mark.parametrize("text", ["Donaudampfschiff" * 12, "x" * 501, "", "Hello.\n\nI am here."])
def test_a_word_longer_than_the_screen_breaks(new_page: Callable[..., Page], text: str) -> None:
    page = visit(new_page(width=320), f"?beam_size=1&text={text}".replace("\n", "%0A"))
    no_sideways_scroll(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_with_everything_open(
    new_page: Callable[..., Page], axe: Callable[..., None], width: int, theme: str
) -> None:
    page = new_page(width=width, color_scheme=theme, reduced_motion="reduce")
    visit(page, "?edit=2&to=Hund&mask=all&silence=cross.1.1&rank=true&cache=true&numbers=true")
    axe(page)
    excess = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(excess) <= 0
