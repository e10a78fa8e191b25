"""What the translation chapter's URL may say: canonical, complete, and refused in words."""

from __future__ import annotations

from dataclasses import fields
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chapters.translate_state import DEFAULT, Head, Parameters, as_text, parse, write
from app.translation.protocol import Interventions, Limits

LIMITS = Limits()


def read(query: str) -> Parameters:
    parsed = parse(parse_qsl(query, keep_blank_values=True), LIMITS)
    assert not parsed.problems, parsed.problems
    return parsed.parameters


def refused(query: str) -> dict[str, str]:
    parsed = parse(parse_qsl(query, keep_blank_values=True), LIMITS)
    return {problem.field: problem.message for problem in parsed.problems}


heads = st.builds(
    Head, st.sampled_from(["encoder", "decoder", "cross"]), st.integers(1, 99), st.integers(1, 99)
)
texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=500
).map(lambda text: text if text.strip() else "")


@given(
    st.builds(
        Parameters,
        text=texts,
        model=st.sampled_from(["en-de", "en-fr"]),
        beam_size=st.integers(1, 8),
        alpha=st.sampled_from([0.0, 0.6, 1.25, 2.0]),
        sentence=st.integers(1, 999),
        head=st.none() | heads,
        sublayer=st.sampled_from(["", "encoder.1.feed_forward", "decoder.3.cross_attention"]),
        mask=st.sampled_from(["causal", "all"]),
        scaled=st.booleans(),
        silence=st.sets(heads, max_size=5).map(
            lambda found: tuple(
                sorted(
                    found,
                    key=lambda h: (
                        ("encoder", "decoder", "cross").index(h.kind),
                        h.layer,
                        h.number,
                    ),
                )
            )
        ),
        edit=st.just(3),
        to=st.sampled_from(["", "Hund", "a & b", "+#%"]),
        rank=st.booleans(),
    )
)
def test_every_state_survives_its_own_query(state: Parameters) -> None:
    query = write(state)
    assert query.isascii()
    assert not set(query) & set(" \"'<>#")
    assert read(query) == state
    assert write(read(query)) == query


def test_the_default_state_has_the_empty_query() -> None:
    assert write(DEFAULT) == ""
    assert read("") == DEFAULT


def test_fields_stand_in_the_query_in_their_declared_order() -> None:
    names = [field.name for field in fields(Parameters)]
    assert list(as_text(DEFAULT)) == names
    query = write(read("alpha=1&text=Hi&model=en-fr&beam_size=2"))
    assert query == "text=Hi&model=en-fr&beam_size=2&alpha=1"


def test_a_checkbox_grid_and_a_link_say_the_same() -> None:
    grid = read("silence=cross.3.2&silence=encoder.1.4")
    assert grid == read("silence=encoder.1.4,cross.3.2")
    assert write(grid) == "silence=encoder.1.4,cross.3.2"


def test_what_the_reader_changed_becomes_interventions() -> None:
    state = read("mask=all&scaled=false&positions=false&silence=cross.3.2")
    assert state.interventions == Interventions(
        causal=False, scaled=False, positions=False, silenced=frozenset({("cross", 2, 1)})
    )
    assert state.asks
    assert not DEFAULT.asks


def test_a_replacement_needs_a_place_and_a_typed_one_wins() -> None:
    assert read("edit=2&to=Hund&to_id=300").to_id == 0
    assert read("to=Hund&to_id=300") == DEFAULT
    assert read("edit=2&to_id=300").edited
    assert not read("edit=2").edited


@pytest.mark.parametrize("value", ["0", "9", "-1", "1.5", "", "x", "٣", "1_0", "0x1", "1" * 5000])
def test_a_beam_is_a_whole_number_within_the_limit(value: str) -> None:
    message = "“beam_size” takes a whole number from 1 to 8."
    assert refused(f"beam_size={value}") == {"beam_size": message}


@pytest.mark.parametrize("value", ["-0.1", "2.01", "nan", "inf", "1e309", "1,5", "", "٣"])
def test_alpha_is_a_number_from_0_to_2(value: str) -> None:
    assert refused(f"alpha={value}").keys() == {"alpha"}


@pytest.mark.parametrize(
    "head", ["cross", "cross.1", "cross.0.1", "memory.1.1", "cross.1.1.1", "a.b.c"]
)
def test_a_head_that_cannot_be_is_refused(head: str) -> None:
    assert "cross.3.2" in refused(f"head={head}")["head"]
    assert "cross.3.2" in refused(f"silence=cross.1.1,{head}")["silence"]


def test_case_12_blank_is_no_mistake() -> None:
    for blank in ("text=", "text=%20%0A%09", "text=%E2%80%83"):
        assert read(blank).text == ""
    assert write(read("text=")) == "text="


def test_case_13_ten_thousand_characters_are_refused_before_anything_else() -> None:
    message = refused("text=" + "%5E" * 10_000)["text"]
    assert message.startswith("That is 10,000 characters; at most 500 are translated.")


@pytest.mark.parametrize(
    ("text", "named"), [("a\x07b", "U+0007"), ("a\x1bb", "U+001B"), ("\x9d", "U+009D")]
)
def test_case_14_a_control_character_is_named(text: str, named: str) -> None:
    parsed = parse([("text", text)], LIMITS)
    assert named in parsed.problems[0].message
    assert parsed.typed["text"] == (text,)


def test_case_14_half_a_character_is_refused() -> None:
    assert "half of a character" in parse([("text", "\ud800")], LIMITS).problems[0].message


@pytest.mark.parametrize(
    "text", ["שלום עולם", "a" + "\u0301" * 50, "👩‍👩‍👧‍👦", "\u202egnp.exe", "z\u200bw"]
)
def test_case_14_odd_but_honest_text_is_accepted(text: str) -> None:
    assert parse([("text", text)], LIMITS).parameters.text == text


def test_the_last_valid_state_stands_in_for_what_was_refused() -> None:
    parsed = parse([("text", "Hi"), ("alpha", "x"), ("valid", "text=Hello&beam_size=2")], LIMITS)
    assert parsed.parameters == Parameters(text="Hello", beam_size=2)
    assert parsed.typed["text"] == ("Hi",)
    assert parsed.typed["alpha"] == ("x",)


@given(st.lists(st.tuples(st.sampled_from([*as_text(DEFAULT), "valid", "x"]), st.text())))
def test_nothing_makes_it_raise(query: list[tuple[str, str]]) -> None:
    parsed = parse(query, LIMITS)
    assert write(parsed.parameters).isascii()
