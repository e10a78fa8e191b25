"""An edit's answer: the parts that differ, and when it must be the whole panel instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.main import create_app
from app.web.parts import MOST_PARTS, Parts, RecentParts
from app.web.views import RUN
from tests.web.html import VOID

PATH = "/chapters/three-positions/panels/bench"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(services={}), base_url="http://127.0.0.1:8000") as client:
        yield client


def whole(client: TestClient, query: str) -> str:
    return client.get(f"{PATH}?{query}").text


def edit(
    client: TestClient, shown: str, query: str, *, run: str = RUN, panel: str = "bench"
) -> str:
    answer = client.get(f"{PATH}?{query}&shown={quote(f'{run}.{panel}.{shown}')}")
    assert answer.status_code == 200
    return answer.text


def without_states(html: str) -> str:
    return re.sub(r'href="\?[^"]*show=', 'href="?show=', html)


def applied(before: str, answer: str) -> str:
    """The panel on the screen after an answer of parts, as the browser makes it."""
    after = without_states(before)
    for id_, part in re.findall(
        r'<hx-partial id="([^"]+)" hx-swap="outerMorph">(.*?)</hx-partial>', answer, re.DOTALL
    ):
        old = without_states(Parts.of(before).html[id_])
        assert after.count(old) == 1
        after = after.replace(old, part)
    return after


# ── What is sent ─────────────────────────────────────────────────────────────────────────────────

NUMBERS = st.sampled_from(["-3", "-0.5", "0", "1", "2.25", "1000000"])
QUERIES = st.builds(
    "&".join,
    st.tuples(
        st.tuples(*[NUMBERS] * 4).map(lambda row: f"x1={','.join(row)}"),
        st.tuples(*[NUMBERS] * 4).map(lambda row: f"x3={','.join(row)}"),
        st.sampled_from(["mask=causal", "mask=all"]),
        st.sampled_from(["scaled=true", "scaled=false"]),
        st.sampled_from(["w_o=identity", "w_o=swapped", "w_o=averaged"]),
        st.sampled_from(["position=1", "position=2", "position=3"]),
        st.sampled_from(["show=", "show=head1.weights.3.2", "show=mean.1"]),
    ),
)


@settings(max_examples=60, deadline=None)
@given(before=QUERIES, after=QUERIES)
def test_parts_make_the_old_panel_the_new_one(client: TestClient, before: str, after: str) -> None:
    """Property: parts applied to what was shown give what a whole answer would have given."""
    old, new = whole(client, before), whole(client, after)
    shown = re.search(r'name="shown" value="\w+\.bench\.([^"]*)"', old)
    assert shown
    answer = edit(client, shown[1].replace("&amp;", "&"), after)
    if "<hx-partial" in answer:
        assert "data-panel" not in answer
        assert applied(old, answer) == without_states(new)
    else:
        assert answer == new


def test_an_edit_of_a_future_row_sends_nothing_of_the_rows_before(client: TestClient) -> None:
    answer = edit(client, "x3=3,-1,1,0", "x3=2,-1,1,0")
    sent = re.findall(r'<hx-partial id="([^"]+)"', answer)
    assert "row-head1.weights-3" in sent
    assert "row-head1.weights-2" not in sent
    assert "verdict-2" not in sent
    assert len(answer) < len(whole(client, "x3=2,-1,1,0")) / 3


@pytest.mark.parametrize(
    "query", ["mask=all", "scaled=false", "w_o=swapped", "position=1", "gamma=2,1,1,1"]
)
def test_controls_are_answered_in_parts(client: TestClient, query: str) -> None:
    assert "<hx-partial" in edit(client, "", query)


def test_an_open_number_follows_in_parts(client: TestClient) -> None:
    answer = edit(client, "show=mean.3", "x3=2,-1,1,0&show=mean.3")
    assert '<hx-partial id="arithmetic"' in answer


# ── When the whole panel is sent ─────────────────────────────────────────────────────────────────


def test_unknown_screens_get_the_whole_panel(client: TestClient) -> None:
    new = whole(client, "x3=2,-1,1,0")
    assert edit(client, "", "x3=2,-1,1,0", run="00000000") == new
    assert edit(client, "", "x3=2,-1,1,0", panel="steps") == new
    assert edit(client, "x3=abc", "x3=2,-1,1,0") == new
    assert edit(client, "x3=1,1,0,0", "x3=2,-1,1,0") == new, "not as the program writes the default"


def test_an_opened_number_changes_the_frame(client: TestClient) -> None:
    assert edit(client, "", "show=mean.1") == whole(client, "show=mean.1")


def test_a_refused_cell_forgets_what_was_shown(client: TestClient) -> None:
    """What a refusal shows is no state's panel, so the next answer must be whole."""
    query = f"x3=abc,1,0,0&valid=&shown={RUN}.bench."
    refused = client.get(f"{PATH}?{query}")
    assert refused.status_code == 422
    assert 'name="shown" value=""' in refused.text
    assert "<hx-partial" not in refused.text


def test_a_question_that_is_not_arithmetic_is_answered_whole(probe: TestClient) -> None:
    """The old state would have to be asked of a model again."""
    path = "/chapters/probe/panels/bench?number=3"
    answer = probe.get(f"{path}&shown={RUN}.bench.text%3Dwait")
    assert answer.text == probe.get(path).text


def test_the_field_is_no_part_of_a_state(client: TestClient) -> None:
    answer = client.get(f"{PATH}?x3=2,-1,1,0&shown={RUN}.bench.")
    assert answer.headers["HX-Replace-Url"] == "?x3=2,-1,1,0"
    page = client.get(f"/chapters/three-positions?x3=2,-1,1,0&shown={RUN}.bench.")
    assert page.status_code == 200
    embed = client.get("/oembed?url=" + quote(f"http://127.0.0.1:8000{PATH[:25]}?shown=1"))
    assert embed.status_code == 200


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Nesting(HTMLParser):
    """Parts that hold an element of their own tag, or another part."""

    open: list[tuple[str, bool]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    parts: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        part = "data-part" in dict(attrs)
        self.parts += part
        outer = [name for name, is_part in self.open if is_part]
        if outer and (part or tag in outer):
            self.wrong.append(f"{tag} in {outer}")
        if tag not in VOID:
            self.open.append((tag, part))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass


@pytest.mark.parametrize("query", ["", "mask=all&show=head1.weights.3.2", "show=layer_norm.3.1"])
def test_no_part_holds_its_own_tag_or_another_part(client: TestClient, query: str) -> None:
    text = whole(client, query)
    nesting = Nesting()
    nesting.feed(text)
    assert nesting.wrong == []
    assert nesting.parts == len(Parts.of(text).html) > 100


def test_more_than_so_many_parts_are_one_swap() -> None:
    def rows(text: str, count: int) -> Parts:
        return Parts.of("".join(f'<p data-part id="p{i}">{text}</p>' for i in range(count)))

    assert rows("b", MOST_PARTS).since(rows("a", MOST_PARTS)) is not None
    assert rows("b", MOST_PARTS + 1).since(rows("a", MOST_PARTS + 1)) is None


def test_the_oldest_states_are_forgotten() -> None:
    recent = RecentParts(size=2)
    for key in "ab":
        recent.keep(key, Parts.of(key))
    recent.get("a", lambda: None)
    recent.keep("c", Parts.of("c"))
    assert recent.get("b", lambda: None) is None
    assert recent.get("b", lambda: "written again") == Parts.of("written again")
    assert recent.get("a", lambda: None) == Parts.of("a")
