"""The three-position chapter elsewhere: in frames, in other colours, on paper, without scripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.checks import no_sideways_scroll

PATH = "/chapters/three-positions"


def headline(page: Page, position: int) -> str:
    return page.locator("#verdict b").nth(position - 1).inner_text()


def wait_for_state(page: Page, query: str) -> None:
    page.wait_for_function("query => location.search === query", arg=query)


def test_case_22_two_frames_of_the_same_panel_stay_independent(page: Page, server: str) -> None:
    page.add_init_script(
        "window.heard = []; addEventListener('message', event => heard.push(event.data))"
    )
    page.goto("/healthz")
    source = f"{server}/embed/three-positions/bench"
    page.evaluate(
        """source => { for (const [id, query] of [["one", "?theme=dark"], ["two", "?mask=all"]]) {
             const frame = document.createElement("iframe");
             Object.assign(frame, {id, src: source + query, title: id, width: 700, height: 600});
             document.body.append(frame);
        }}""",
        source,
    )
    one, two = page.frame_locator("#one"), page.frame_locator("#two")
    expect(two.locator("#mask-all")).to_be_checked()
    one.locator("#x3-1").fill("7")
    expect(one.locator("[id='head1.Q.3.1']")).to_have_text("7.000")
    expect(two.locator("[id='head1.Q.3.1']")).to_have_text("1.000")
    expect(two.locator("#x3-1")).to_have_value("1")
    assert one.locator("html").get_attribute("data-theme") == "dark"
    heard = page.evaluate("heard")
    own = [m for m in heard if m.get("type") == "explorable-attention:height"]
    lti = [m for m in heard if m.get("subject") == "lti.frameResize"]
    assert len(own) >= 2
    assert len(lti) >= 2
    assert all(message["height"] > 300 for message in own + lti)


def test_a_panel_alone_keeps_its_state_and_theme(page: Page) -> None:
    """In a frame without the bench: steps turn, questions are answered, the address follows."""
    page.goto("/embed/three-positions/steps?theme=dark&x3=2,-1,1,0&step=4")
    page.locator("#steps-next").click()
    expect(page.locator("#steps h3")).to_have_text("Step 5 of 10: Mask")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#steps h3")).to_have_text("Step 6 of 10: Subtract the largest")
    wait_for_state(page, "?x3=2,-1,1,0&step=6&theme=dark")
    page.goto("/embed/three-positions/quiz?theme=dark&x3=2,-1,1,0")
    page.locator("#guess1").fill("1.41")
    page.locator("#guess1").press("Enter")
    expect(page.locator("#guess1-answer")).to_contain_text("Right. It is 1.414.")
    assert "theme=dark" in page.url
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_bench_without_controls_can_still_be_asked(page: Page) -> None:
    page.goto("/embed/three-positions/bench?controls=hide&x3=2,-1,1,0&mask=all")
    expect(page.locator("#bench input:not([type=hidden])")).to_have_count(0)
    page.locator("[id='head1.weights.3.3']").click()
    expect(page.locator("[data-arithmetic] output")).to_have_text("0.8816454107296027")
    assert "x3=2,-1,1,0&mask=all" in page.url
    assert "controls=hide" in page.url


def test_case_24_everything_without_scripts(new_page: Callable) -> None:
    page = new_page(javascript=False)
    page.goto(PATH)
    page.locator("#x3-1").fill("2")
    page.get_by_role("button", name="Calculate").click()
    assert "x3=2&x3=1" in page.url
    assert headline(page, 2) == "Position 2: identical to the last bit"
    page.locator("[id='head2.weights.3.1']").click()
    expect(page.locator("[data-arithmetic]")).to_contain_text("Weight of position 3 on key 1")
    page.locator("[data-arithmetic] .close").click()
    expect(page.locator("[data-arithmetic]")).to_have_count(0)
    page.locator("#steps-next").click()
    expect(page.locator("#steps h3")).to_have_text("Step 2 of 10: Project")
    page.locator("#guess1").fill("1.4")
    page.locator(".question").first.get_by_role("button", name="Check").click()
    expect(page.locator("#guess1-answer")).to_contain_text("Right. It is 1.414.")
    page.locator("#x1-1").fill("many")
    page.get_by_role("button", name="Calculate").click()
    expect(page.locator("#inputs-problems")).to_contain_text("Position 1, coordinate 1")
    expect(page.locator("#x1-1")).to_have_value("many")
    expect(page.locator("[id='head1.Q.3.1']")).to_have_text("2.000")
    page.locator("summary", has_text="Embed").click()
    expect(page.locator("#plain-code-bench")).to_contain_text("/embed/three-positions/bench")


def test_the_embed_dialog_gives_the_code(page: Page) -> None:
    page.goto(f"{PATH}?x3=2,-1,1,0")
    page.get_by_role("button", name="Embed").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    code = dialog.locator("#code-bench").input_value()
    assert "/embed/three-positions/bench?x3=2,-1,1,0" in code
    assert "title=" in code
    assert "height=" in code
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


STATES = {
    "open": "?x3=2,-1,1,0&show=head1.weights.3.3&step=7&guess1=0.7&guess2=0.1&reveal=3",
    "refused": "?x1=a,b,c,d&epsilon=7&guess1=x&position=9",
    "all": "?mask=all&scaled=false&w_o=averaged&show=layer_norm.2.1&step=10",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_any_state(
    new_page: Callable, axe: Callable, theme: str, state: str
) -> None:
    page = new_page(color_scheme=theme, reduced_motion="reduce")
    page.goto(PATH + STATES[state])
    axe(page)
    if state == "open":
        page.get_by_role("button", name="Embed").click()
        axe(page)


def test_reduced_motion_moves_nothing(new_page: Callable) -> None:
    page = new_page(reduced_motion="reduce")
    page.goto(f"{PATH}?show=head1.weights.3.3")
    moving = page.evaluate("document.getAnimations().filter(a => a.playState === 'running').length")
    assert moving == 0
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_forced_colours_keep_what_colour_said(new_page: Callable) -> None:
    page = new_page(forced_colors="active")
    page.goto(f"{PATH}?x3=2,-1,1,0&show=head1.weights.3.3")
    chosen = page.locator(".seg label:has(#mask-causal)")
    other = page.locator(".seg label:has(#mask-all)")
    colour = "element => getComputedStyle(element).backgroundColor"
    assert chosen.evaluate(colour) != other.evaluate(colour)
    changed = page.locator("td.changed").first
    assert changed.evaluate("element => getComputedStyle(element).borderBottomStyle") == "solid"


@pytest.mark.parametrize("width", [320, 360])
def test_huge_numbers_scroll_their_tables_and_not_the_page(
    new_page: Callable, axe: Callable, width: int
) -> None:
    """WCAG 1.4.10: 320 px are 1280 at 400 %."""
    page = new_page(width=width, reduced_motion="reduce")
    page.goto(f"{PATH}?x3=1000000,-0.00012,1,0&mask=all&show=layer_norm.3.1")
    no_sideways_scroll(page)
    axe(page)


def test_print_shows_the_numbers_and_not_the_controls(page: Page) -> None:
    page.goto(PATH)
    page.emulate_media(media="print")
    expect(page.locator(".bar")).to_be_hidden()
    expect(page.locator("[id='head1.weights.3.3']")).to_be_visible()
