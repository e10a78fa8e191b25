"""The three-position chapter elsewhere: in frames, in other colours, on paper, without scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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


# ── In a page of another origin ──────────────────────────────────────────────────────────────────


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder that another server serves, and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=tmp_path))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


GROW = """<script>
  window.heard = [];
  addEventListener("message", ({ data, source }) => {
    heard.push(data);
    for (const frame of document.querySelectorAll("iframe"))
      if (frame.contentWindow === source && data.height) frame.height = data.height;
  });
</script>"""


def test_the_copied_code_works_in_a_page_of_another_origin(
    new_page: Callable, elsewhere: tuple[Path, str]
) -> None:
    """Each panel's frame grows with it, and what is changed inside stays inside."""
    folder, address = elsewhere
    page = new_page(width=760)
    page.goto(f"{PATH}?x3=2,-1,1,0")
    codes = page.locator("dialog textarea[name=code]").evaluate_all("all => all.map(a => a.value)")
    assert len(codes) == 5
    frames = "".join(codes).replace(' loading="lazy"', "")
    icon = '<link rel="icon" href="data:,">'
    head = f'<!doctype html><html lang="en"><title>Elsewhere</title>{icon}'
    (folder / "index.html").write_text(head + GROW + frames)
    page.goto(address)
    page.wait_for_function("new Set(heard.map(message => message.panel)).size === 6")
    subjects = page.evaluate("heard.map(message => message.type ?? message.subject)")
    assert set(subjects) == {"explorable-attention:height", "lti.frameResize"}
    fits = "() => document.documentElement.scrollHeight === innerHeight"
    for frame in page.frames[1:]:
        frame.wait_for_function(fits)
        sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert frame.evaluate(sideways) == 0
    heights = "[...document.querySelectorAll('iframe')].map(frame => frame.height)"
    first = page.evaluate(heights)
    for _ in range(12):
        page.mouse.wheel(0, 900)
        page.wait_for_timeout(50)
    assert page.evaluate(heights) == first, "a frame changed its height as it came into sight"
    bench, steps, _, _, quiz = page.frames[1:]
    bench.locator("#x3-1").fill("7")
    expect(bench.locator("[id='head1.Q.3.1']")).to_have_text("7.000")
    steps.locator("#steps-next").click()
    expect(steps.locator("h3")).to_have_text("Step 2 of 10: Project")
    expect(quiz.locator(".given").first).to_contain_text("Query 3: (2, −1)")


# ── The keyboard, and what stays open ────────────────────────────────────────────────────────────


def test_the_steps_can_be_turned_to_both_ends_by_keyboard(page: Page) -> None:
    """Back and Next keep the focus at either end."""
    page.goto(f"{PATH}?step=9")
    title = page.locator("#steps h3")
    page.locator("#steps-next").focus()
    page.keyboard.press("Enter")
    expect(title).to_have_text("Step 10 of 10: Add and normalise")
    expect(page.locator("#steps-next")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    expect(title).to_have_text("Step 9 of 10: Join the heads")
    page.goto(f"{PATH}?step=2")
    page.locator("#steps-back").focus()
    page.keyboard.press("Enter")
    expect(title).to_have_text("Step 1 of 10: The rows that come in")
    expect(page.locator("#steps-back")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text("Step 2 of 10: Project")


def test_the_link_to_this_state_knows_the_step(new_page: Callable) -> None:
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{PATH}?x3=2,1,0,0")
    page.locator("#steps-next").click()
    wait_for_state(page, "?x3=2,1,0,0&step=2")
    link = page.locator("#here")
    link.hover()
    expect(link).to_have_attribute("href", "?x3=2,1,0,0&step=2")
    page.locator("#steps-next").click()
    wait_for_state(page, "?x3=2,1,0,0&step=3")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_an_answer_is_shown_and_hidden_where_the_focus_is(page: Page) -> None:
    page.goto(PATH)
    button = page.locator("#reveal3")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#guess3-answer")).to_contain_text("It is 0.667.")
    expect(button).to_be_focused()
    expect(button).to_have_text("Hide")
    page.keyboard.press("Enter")
    expect(page.locator("#guess3-answer")).to_be_empty()
    expect(button).to_be_focused()
    expect(button).to_have_text("Show me")


def test_an_open_plot_follows_the_inputs_and_closes_again(new_page: Callable) -> None:
    page = new_page(allow=("Failed to load resource",))
    page.goto(PATH)
    button = page.locator("#plot-open")
    page.route("**/sweep.json*", lambda route: route.fulfill(status=503))
    button.click()
    expect(button).to_have_text("It could not be loaded. Try again")
    expect(page.locator("#sweep .chart").first).to_be_visible()
    page.unroute("**/sweep.json*")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#plot .scatterlayer .trace")).to_have_count(6, timeout=20_000)
    expect(button).to_be_focused()
    expect(button).to_have_text("Back to the drawing")
    expect(page.locator("#sweep .chart").first).to_be_hidden()
    with page.expect_response("**/sweep.json?x3=5,1,0,0"):
        page.locator("#x3-1").fill("5")
        wait_for_state(page, "?x3=5,1,0,0")
        button.scroll_into_view_if_needed()
    expect(page.locator("#plot .main-svg").first).to_be_visible()
    expect(button).to_have_text("Back to the drawing")
    button.click()
    expect(page.locator("#plot")).to_be_hidden()
    expect(page.locator("#sweep .chart").first).to_be_visible()
