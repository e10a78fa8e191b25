"""The three-position chapter in a real browser: edit, see, open, step, predict, embed."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, Route, expect

PATH = "/chapters/three-positions"


def headline(page: Page, position: int) -> str:
    return page.locator("#verdict b").nth(position - 1).inner_text()


def wait_for_state(page: Page, query: str) -> None:
    page.wait_for_function("query => location.search === query", arg=query)


# ── Edit ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_reaches_the_numbers_the_words_and_the_address(page: Page) -> None:
    page.goto(PATH)
    page.locator("#x3-1").fill("2")
    page.locator("#x3-2").fill("-1")
    page.locator("#x3-3").fill("1")
    wait_for_state(page, "?x3=2,-1,1,0")
    assert headline(page, 1) == "Position 1: identical to the last bit"
    assert headline(page, 2) == "Position 2: identical to the last bit"
    assert headline(page, 3) == "Position 3: changed by up to 2.210"
    expect(page.locator("[id='head1.weights.3.3']")).to_have_text("0.882")
    expect(page.locator("td:has(> [id='head1.weights.3.3'])")).to_have_class("heat-18 changed")
    expect(page.locator("td:has(> [id='head1.weights.2.2'])")).not_to_have_class("changed")


def test_case_21_typing_keeps_caret_and_focus_while_updates_arrive(page: Page) -> None:
    """Five characters in the middle of a field, each followed by an answer."""
    page.goto(PATH)
    field = page.locator("#x2-2")
    field.fill("19")
    wait_for_state(page, "?x2=0,19,0,1")
    field.focus()
    page.evaluate("document.activeElement.setSelectionRange(1, 1)")
    for typed, text in zip("12.34", ["119", "1129", "112.9", "112.39", "112.349"], strict=True):
        with page.expect_response(lambda answer: "/panels/bench" in answer.url):
            page.keyboard.type(typed)
        page.wait_for_timeout(60)
        expect(field).to_be_focused()
        expect(field).to_have_value(text)
        caret = page.evaluate("document.activeElement.selectionStart")
        assert caret == text.index("9", 1 if text != "119" else 2)
    wait_for_state(page, "?x2=0,112.349,0,1")


def test_fast_typing_across_cells_loses_nothing(page: Page) -> None:
    page.goto(PATH)
    page.locator("#x1-1").select_text()
    for text in ("12", "-3.5", "0.25", "7"):
        page.keyboard.type(text, delay=25)
        page.keyboard.press("Tab")
    wait_for_state(page, "?x1=12,-3.5,0.25,7")
    values = [page.locator(f"#x1-{place}").input_value() for place in range(1, 5)]
    assert values == ["12", "-3.5", "0.25", "7"]


def test_arrow_keys_step_a_cell(page: Page) -> None:
    page.goto(PATH)
    field = page.locator("#x1-2")
    field.focus()
    for key, value in (
        ("ArrowUp", "1"),
        ("Shift+ArrowUp", "11"),
        ("Alt+ArrowDown", "10.9"),
        ("ArrowDown", "9.9"),
        ("Alt+ArrowUp", "10"),
    ):
        page.keyboard.press(key)
        expect(field).to_have_value(value)
    wait_for_state(page, "?x1=1,10,1,0")
    expect(field).to_be_focused()


def test_a_refused_cell_says_why_and_keeps_everything_else(page: Page) -> None:
    page.goto(f"{PATH}?x3=2,-1,1,0")
    before = page.locator("[id='layer_norm.3.1']").inner_text()
    page.locator("#x1-1").fill("1e309")
    problem = page.locator("#inputs-problems")
    expect(problem).to_contain_text("Position 1, coordinate 1 takes a number between −1,000,000")
    with page.expect_response(lambda answer: "/panels/bench" in answer.url):
        page.locator("#x1-2").fill("5")
    expect(page.locator("#x1-1")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#x1-1")).to_have_attribute("aria-describedby", "inputs-problems")
    expect(page.locator("#x1-1")).to_have_value("1e309")
    expect(page.locator("#x1-2")).to_have_value("5")
    expect(page.locator("#bench")).to_have_class("bench stale")
    expect(page.locator("#bench .notice").first).to_contain_text("last accepted values")
    assert page.locator("[id='layer_norm.3.1']").inner_text() == before
    page.locator("#x1-1").fill("1")
    expect(page.locator("#bench")).to_have_class("bench")
    expect(problem).to_be_hidden()
    wait_for_state(page, "?x1=1,5,1,0&x3=2,-1,1,0")


def test_controls_and_presets(page: Page) -> None:
    page.goto(PATH)
    page.get_by_role("link", name="Edited future").click()
    wait_for_state(page, "?x3=2,-1,1,0")
    expect(page.locator("#x3-1")).to_have_value("2")
    page.get_by_text("All positions", exact=True).click()
    wait_for_state(page, "?x3=2,-1,1,0&mask=all")
    assert "changed" in headline(page, 2)
    expect(page.locator("#verdict")).to_contain_text("It may now attend to position 3 as well")
    page.get_by_role("group", name="Divide by").get_by_text("Off").click()
    wait_for_state(page, "?x3=2,-1,1,0&mask=all&scaled=false")
    page.get_by_text("Heads averaged").click()
    wait_for_state(page, "?x3=2,-1,1,0&mask=all&scaled=false&w_o=averaged")
    page.locator("label:has(#position-1)").click()
    wait_for_state(page, "?x3=2,-1,1,0&mask=all&scaled=false&position=1&w_o=averaged")
    page.get_by_role("link", name="Original", exact=True).click()
    wait_for_state(page, "?mask=all&scaled=false&position=1&w_o=averaged")
    expect(page.locator("#x3-1")).to_have_value("1")


def test_the_default_state_has_a_bare_address(page: Page) -> None:
    page.goto(f"{PATH}?x3=2,1,0,0")
    page.get_by_role("link", name="Original", exact=True).click()
    expect(page).to_have_url(re.compile(f"{PATH}$"))


def test_the_last_of_many_edits_wins(page: Page) -> None:
    """Answers that come late are given up, not shown."""
    page.goto(PATH)
    delays = iter((700, 0))
    page.route(
        "**/panels/bench**",
        lambda route: (page.wait_for_timeout(next(delays, 0)), route.continue_()),
    )
    page.locator("#x1-1").fill("5")
    page.wait_for_timeout(200)
    page.locator("#x1-1").fill("6")
    wait_for_state(page, "?x1=6,0,1,0")
    page.wait_for_timeout(800)
    expect(page.locator("[id='head1.Q.1.1']")).to_have_text("6.000")


def test_trouble_on_the_line_is_told_and_keeps_the_page(new_page: Callable) -> None:
    page = new_page(allow=("503", "htmx"))
    page.goto(PATH)
    page.route("**/panels/bench**", lambda route: route.fulfill(status=503, body="no"))
    page.locator("#x1-1").fill("5")
    expect(page.locator("#bench [data-trouble]")).to_be_visible()
    expect(page.locator("#x1-1")).to_have_value("5")
    page.unroute("**/panels/bench**")
    page.locator("#x1-1").press("Enter")
    wait_for_state(page, "?x1=5,0,1,0")
    expect(page.locator("#bench [data-trouble]")).to_be_hidden()


# ── Show the arithmetic ──────────────────────────────────────────────────────────────────────────


def test_a_number_opens_in_place_and_closes(page: Page) -> None:
    page.goto(PATH)
    number = page.locator("[id='head1.weights.3.3']")
    number.click()
    aside = page.locator("[data-arithmetic]")
    expect(aside).to_contain_text("Weight of position 3 on key 3, head 1")
    expect(aside.locator("h4")).to_be_focused()
    expect(aside.locator("output")).to_have_text("0.5034898434845538")
    expect(page.locator("td.operand")).to_have_count(2)
    expect(page).to_have_url(re.compile("show=head1.weights.3.3"))
    page.keyboard.press("Escape")
    expect(aside).to_have_count(0)
    expect(number).to_be_focused()
    expect(page).not_to_have_url(re.compile("show="))


def test_operands_lead_further_back(page: Page) -> None:
    page.goto(f"{PATH}?show=head1.scores.3.1")
    page.get_by_role("link", name="head 1 K 1, 1").click()
    expect(page.locator("[data-arithmetic]")).to_contain_text("Key of position 1, coordinate 1")
    expect(page.locator("td.shown [id='head1.K.1.1']")).to_be_visible()


def test_the_keyboard_moves_within_a_table(page: Page) -> None:
    page.goto(PATH)
    page.locator("[id='head1.scores.1.1']").focus()
    for key, address in (
        ("ArrowRight", "head1.scores.1.2"),
        ("ArrowDown", "head1.scores.2.2"),
        ("End", "head1.scores.2.3"),
        ("ArrowDown", "head1.scores.3.3"),
        ("Home", "head1.scores.3.1"),
    ):
        page.keyboard.press(key)
        expect(page.locator(f"[id='{address}']")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("[id='head1.scaled_scores.1.1']")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.locator("[id='head1.scores.3.1']")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-arithmetic]")).to_contain_text("Score of position 3")


def test_full_precision_is_copied(new_page: Callable) -> None:
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{PATH}?show=head1.weights.3.3")
    page.get_by_role("button", name="Copy", exact=True).click()
    assert page.evaluate("navigator.clipboard.readText()") == "0.5034898434845538"
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_timeout(50)
    assert page.evaluate("navigator.clipboard.readText()") == page.url


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────


def test_case_20_back_and_reload_show_the_whole_page_in_the_same_state(page: Page) -> None:
    page.goto(PATH)
    page.locator("#x3-1").fill("4")
    wait_for_state(page, "?x3=4,1,0,0")
    page.goto("/")
    page.go_back()
    wait_for_state(page, "?x3=4,1,0,0")
    for _ in range(2):
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("footer.site-footer")).to_be_visible()
        expect(page.locator("#x3-1")).to_have_value("4")
        expect(page.locator("[id='head1.Q.3.1']")).to_have_text("4.000")
        page.reload()


def test_case_23_a_permalink_restores_exactly_that_state(page: Page) -> None:
    page.goto(f"{PATH}?x1=0,0,0,0&scaled=false&position=3&w_o=swapped&step=4")
    expect(page.locator("#x1-1")).to_have_value("0")
    expect(page.locator("#scaled-false")).to_be_checked()
    expect(page.locator("#position-3")).to_be_checked()
    expect(page.locator("#w_o-swapped")).to_be_checked()
    expect(page.locator("#steps h3")).to_have_text("Step 4 of 10: Scale")


def test_case_23_a_value_out_of_range_is_refused_with_notice(page: Page) -> None:
    answer = page.goto(f"{PATH}?x1=1000001,0,0,0&position=7")
    assert answer is not None
    assert answer.status == 422
    expect(page.locator("#inputs-problems")).to_contain_text("Position 1, coordinate 1")
    expect(page.locator("#other-problems")).to_contain_text("“position” can be 1 or 2 or 3.")
    expect(page.locator("#x1-1")).to_have_value("1000001")


# ── Steps, questions, the moving input ───────────────────────────────────────────────────────────


def test_steps_by_key_and_button(page: Page) -> None:
    page.goto(PATH)
    title = page.locator("#steps h3")
    page.locator("#steps-next").click()
    expect(title).to_have_text("Step 2 of 10: Project")
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text("Step 3 of 10: Compare")
    wait_for_state(page, "?step=3")
    page.keyboard.press("ArrowLeft")
    expect(title).to_have_text("Step 2 of 10: Project")
    page.locator("#steps .trail a").nth(6).click()
    expect(title).to_have_text("Step 7 of 10: Share")
    wait_for_state(page, "?step=7")
    page.reload()
    expect(title).to_have_text("Step 7 of 10: Share")


def test_panels_below_follow_the_bench(page: Page) -> None:
    page.goto(f"{PATH}?step=5")
    page.get_by_text("All positions", exact=True).click()
    wait_for_state(page, "?mask=all&step=5")
    page.locator("#steps").scroll_into_view_if_needed()
    expect(page.locator("#steps")).to_contain_text("nothing is struck out")
    page.locator("#sweep").scroll_into_view_if_needed()
    expect(page.locator("#sweep")).to_contain_text("Every position notices")


def test_a_late_answer_does_not_take_an_edit_back(page: Page) -> None:
    """A step is asked for, and while its answer is on its way a cell is changed."""
    page.goto(PATH)
    held: list[Route] = []
    page.route("**/panels/steps*", lambda route: held.append(route), times=1)
    page.locator("#steps-next").click()
    page.locator("#x3-1").fill("2")
    wait_for_state(page, "?x3=2,1,0,0&step=2")
    held[0].continue_()
    page.locator("#steps").scroll_into_view_if_needed()
    expect(page.locator("#steps h3")).to_have_text("Step 2 of 10: Project")
    page.wait_for_timeout(300)
    wait_for_state(page, "?x3=2,1,0,0&step=2")
    expect(page.locator("#steps-next")).to_have_attribute("href", "?x3=2,1,0,0&step=3")


def test_predict_then_reveal(page: Page) -> None:
    page.goto(PATH)
    question = page.locator(".question").first
    expect(question.locator(".answer")).to_be_empty()
    page.locator("#guess1").fill("0.71")
    page.locator("#guess1").press("Enter")
    expect(question.locator(".answer")).to_contain_text("Right. It is 0.707.")
    expect(question.locator(".answer math")).to_be_visible()
    expect(page).to_have_url(re.compile("guess1=0.71"))
    page.locator("#guess2").fill("half")
    page.locator("#guess2").press("Enter")
    expect(page.locator("#guess2-problems")).to_contain_text("A prediction is a number between")
    expect(page.locator("#guess2")).to_have_value("half")
    page.locator("#guess2").fill("")
    page.locator(".question").nth(4).get_by_role("button", name="Show me").click()
    expect(page.locator("#guess5-answer")).to_contain_text("Nothing at all, not even in the last")


def test_a_try_in_the_prose_moves_the_bench(page: Page) -> None:
    page.goto(PATH)
    page.get_by_role("link", name="Switch scaling off").click()
    wait_for_state(page, "?scaled=false")
    expect(page.locator("#scaled-false")).to_be_checked()
    expect(page.locator("[id='head1.weights.3.3']")).to_have_text("0.576")
    expect(page.locator("#bench")).to_be_in_viewport()


def test_the_plotting_library_is_fetched_only_when_opened(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(PATH)
    page.locator("#sweep").scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")
    assert not [url for url in asked if "plotly" in url]
    page.get_by_role("button", name="Read it point by point").click()
    expect(page.locator("#plot .main-svg").first).to_be_visible(timeout=20_000)
    expect(page.locator("#plot .scatterlayer .trace")).to_have_count(6)
    assert len([url for url in asked if "plotly" in url]) == 1


# ── An answer of parts ───────────────────────────────────────────────────────────────────────────

EVERYTHING = """() => [...document.querySelectorAll('#bench *')]
    .filter(e => !e.closest('.without-script')).map(e => [
    e.tagName, e.id, [...e.classList].sort().join(' '), e.children.length ? '' : e.textContent,
    e.tagName === 'INPUT' ? `${e.name}=${e.name === 'shown' ? '' : e.value}:${e.checked}` : '',
    e.getAttribute('href')?.replace(/^\\\\?.*show=/, '?show=') ?? ''].join('|'))"""


def test_after_many_edits_the_bench_is_what_a_fresh_page_shows(page: Page) -> None:
    """Whatever was sent in parts, written into rows or put off until after the painting."""
    page.goto(PATH)
    edits = [
        ("#x3-1", "2"), ("#x3-2", "-1"), ("#mask-all", ""), ("#x1-2", "250000"),
        ("#scaled-false", ""),
        ("#position-2", ""), ("#w_o-averaged", ""), ("#gamma-3", "-2.5"), ("#x3-1", "abc"),
        ("#x3-1", "0.001"), ("#mask-causal", ""), ("#position-1", ""), ("#x1-2", "0"),
    ]  # fmt: skip
    for selector, text in edits:
        with page.expect_response(lambda answer: "/panels/bench" in answer.url):
            if text:
                page.locator(selector).fill(text)
            else:
                page.locator(f"label:has({selector})").click()
    wait_for_state(page, "?x3=0.001,-1,0,0&scaled=false&position=1&w_o=averaged&gamma=1,1,-2.5,1")
    page.locator("h1").click()
    page.wait_for_timeout(300)
    edited = page.evaluate(EVERYTHING)
    page.reload()
    assert edited == page.evaluate(EVERYTHING)


def test_links_of_numbers_that_an_edit_left_alone_have_the_present_state(page: Page) -> None:
    page.goto(PATH)
    page.locator("#x3-1").fill("2")
    wait_for_state(page, "?x3=2,1,0,0")
    link = page.locator("[id='head1.weights.1.1']")
    link.hover()
    expect(link).to_have_attribute("href", "?x3=2,1,0,0&show=head1.weights.1.1")
    link = page.locator("[id='head1.weights.2.2']")
    link.focus()
    expect(link).to_have_attribute("href", "?x3=2,1,0,0&show=head1.weights.2.2")
    prose = page.locator("#reading a[href*='show=']").first
    prose.scroll_into_view_if_needed()
    page.wait_for_timeout(500)  # the panel follows the edit first
    states = prose.get_attribute("href")
    prose.hover()
    expect(prose).to_have_attribute("href", states or "")
    link.click()
    wait_for_state(page, "?x3=2,1,0,0&show=head1.weights.2.2")
    link = page.locator("[id='head1.weights.1.1']")
    link.hover()
    expect(link).to_have_attribute("href", "?x3=2,1,0,0&show=head1.weights.1.1")
