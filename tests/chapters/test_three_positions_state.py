"""What the URL of the three-position chapter may say: round trips, refusals, what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chapters.contract import Parsed
from app.chapters.three_positions import load
from app.chapters.three_positions_state import Parameters, read_number, write_number
from app.chapters.worked_example import LARGEST

CHAPTER = load()
DEFAULT = CHAPTER.languages.default()
CELL = "a number between −1,000,000 and 1,000,000, with a point for decimals, such as 0.5"


def parse(query: str) -> Parsed[Parameters]:
    return CHAPTER.parse(parse_qsl(query, keep_blank_values=True))


numbers = st.floats(-LARGEST, LARGEST, allow_nan=False).map(lambda value: value + 0.0)
rows = st.tuples(numbers, numbers, numbers, numbers)
states = st.builds(
    Parameters,
    example=st.just(DEFAULT.example),
    x=st.tuples(rows, rows, rows),
    w_o=st.sampled_from(["identity", "swapped", "averaged"]),
    gamma=rows,
    beta=rows,
    epsilon=st.floats(1e-12, 1),
    position=st.integers(1, 3),
    mask=st.sampled_from(["causal", "all"]),
    scaled=st.booleans(),
    step=st.integers(1, 10),
    show=st.sampled_from(["", "head1.weights.3.2", "mean.1", "layer_norm.2.4", "X.1.1"]),
    guesses=st.tuples(*[st.sampled_from(["", "0.5", "-1", "+1", "1e3"])] * 5),
    reveal=st.integers(0, 5),
)


@given(states)
@settings(deadline=None, max_examples=150)
def test_a_state_survives_its_url(state: Parameters) -> None:
    query = CHAPTER.query(state)
    parsed = parse(query)
    assert not parsed.problems
    assert parsed.parameters == state
    assert CHAPTER.query(parsed.parameters) == query


@given(numbers)
def test_a_number_survives_its_text(value: float) -> None:
    assert read_number(write_number(value)) == value


@given(st.text())
def test_no_text_is_an_accident(text: str) -> None:
    value = read_number(text)
    assert value is None or -LARGEST <= value <= LARGEST


def test_defaults_are_left_out() -> None:
    assert CHAPTER.query(DEFAULT) == ""
    assert parse("").parameters == DEFAULT
    assert DEFAULT.x == ((1, 0, 1, 0), (0, 1, 0, 1), (1, 1, 0, 0))
    assert (DEFAULT.mask, DEFAULT.scaled, DEFAULT.position) == ("causal", True, 3)


def test_the_order_is_declared() -> None:
    state = replace(
        DEFAULT,
        x=(*DEFAULT.x[:2], (2.0, -1.0, 1.0, 0.0)),
        mask="all",
        scaled=False,
        position=2,
        show="head1.weights.2.1",
        step=4,
    )
    query = "x3=2,-1,1,0&mask=all&scaled=false&position=2&step=4&show=head1.weights.2.1"
    assert CHAPTER.query(state) == query


def test_cells_of_a_form_and_a_row_in_a_link_are_the_same() -> None:
    link = parse("x3=2,-1,1,0&gamma=1,2,3,4")
    form = parse("x3=2&x3=-1&x3=1&x3=0&gamma=1&gamma=2&gamma=3&gamma=4")
    assert link.parameters == form.parameters


def test_case_23_a_permalink_restores_exactly_its_state() -> None:
    state = parse("x1=0,0,0,0&scaled=false&position=3").parameters
    assert state.x[0] == (0, 0, 0, 0)
    assert state.scaled is False
    assert state.position == 3


@pytest.mark.parametrize("field", ["position=4", "position=0", "step=11", "reveal=6", "mask=some"])
def test_case_23_a_choice_that_is_none_is_refused_with_notice(field: str) -> None:
    parsed = parse(field)
    name, value = field.split("=")
    (problem,) = parsed.problems
    assert (problem.field, problem.typed) == (name, value)
    assert parsed.parameters == DEFAULT


REFUSED = ["NaN", "inf", "-Infinity", "1e309", "1e400", "", " ", "1_000", "0x10", "1,5", "٣", "--1"]
REFUSED += ["1e", ".", "1 2", "one", "\x00", "\ud800", "1000000.5", "-1000001", "9" * 5000, "½"]


@pytest.mark.parametrize("typed", REFUSED)
def test_cases_9_14_16_a_cell_that_is_no_number_is_refused_beside_the_cell(typed: str) -> None:
    query = [("x2", "0.25"), ("x2", typed), ("x2", "-3"), ("x2", "1e2")]
    parsed = CHAPTER.parse(query)
    (problem,) = parsed.problems
    assert (problem.field, problem.index) == ("x2", 1)
    assert problem.message.startswith("Position 2, coordinate 2 ")
    assert CELL in problem.message
    assert [parsed.typed["x2"][place] for place in (0, 2, 3)] == ["0.25", "-3", "1e2"]


ACCEPTED: list[tuple[str, float]] = [("-0", 0.0), (" 1.5 ", 1.5), ("+2", 2.0), (".5", 0.5)]
ACCEPTED += [("−1", -1.0), ("1e6", 1e6), ("-1000000", -1e6), ("5.", 5.0), ("1e-400", 0.0)]


@pytest.mark.parametrize(("typed", "value"), ACCEPTED)
def test_case_16_what_is_a_number_is_the_right_one(typed: str, value: float) -> None:
    parsed = CHAPTER.parse([("x1", typed)] + [("x1", "0")] * 3)
    assert not parsed.problems
    assert parsed.parameters.x[0][0] == value
    assert str(parsed.parameters.x[0][0]) != "-0.0"


@pytest.mark.parametrize(("query", "count"), [("x1=1", "1 was"), ("x1=1,2,3,4,5", "5 were")])
def test_a_row_of_the_wrong_length_is_refused(query: str, count: str) -> None:
    (problem,) = parse(query).problems
    assert problem.index is None
    assert count in problem.message


@pytest.mark.parametrize("typed", ["0", "-1", "2", "nan", "1e-13"])
def test_epsilon_stays_where_the_root_is_defined(typed: str) -> None:
    (problem,) = parse(f"epsilon={typed}").problems
    assert problem.field == "epsilon"


def test_an_address_that_is_none_is_refused() -> None:
    for show in ("head3.weights.1.1", "weights.1.1", "head1.weights.4.1", "__class__", "x" * 500):
        (problem,) = parse(f"show={show}").problems
        assert problem.field == "show"


def test_the_last_accepted_state_stays_when_something_is_refused() -> None:
    valid = "x3=2,-1,1,0&mask=all"
    cells = [("x1", "abc"), *[("x1", "5")] * 3]
    parsed = CHAPTER.parse([*cells, ("mask", "causal"), ("valid", valid)])
    assert parsed.parameters == parse(valid).parameters
    assert parsed.typed["x1"] == ("abc", "5", "5", "5")
    assert parsed.typed["mask"] == ("causal",)


def test_what_is_refused_does_not_hinder_looking_at_the_last_state() -> None:
    """A number can be opened, a step turned, a position chosen while a cell or a guess is wrong."""
    valid = "x3=2,-1,1,0&mask=all&position=2&guess2=1"
    query = [*[("x1", cell) for cell in ("1", "abc", "1", "0")], ("valid", valid), ("step", "4")]
    parsed = CHAPTER.parse([*query, ("show", "mean.1"), ("position", "1")])
    assert parsed.parameters == replace(parse(valid).parameters, step=4, show="mean.1", position=1)
    parsed = CHAPTER.parse([*query, ("show", "nothing"), ("guess1", "abc"), ("guess3", "2")])
    assert parsed.parameters == replace(
        parse(valid).parameters, step=4, guesses=("", "", "2", "", "")
    )
    assert parsed.typed["guess1"] == ("abc",)


def test_what_was_not_typed_is_shown_as_it_was() -> None:
    valid = "x3=2,-1,1,0&mask=all"
    parsed = CHAPTER.parse([("x1", "1,2"), ("scaled", "perhaps"), ("valid", valid)])
    assert parsed.typed["mask"] == ("all",)
    assert parsed.typed["x3"] == ("2", "-1", "1", "0")
    assert parsed.typed["x1"] == ("1", "0", "1", "0")


@pytest.mark.parametrize("valid", ["x1=abc", "&&&", "valid=valid%3Dx", "%ff", "x=1&" * 500])
def test_a_forged_last_state_does_no_harm(valid: str) -> None:
    parsed = CHAPTER.parse([("x1", "abc"), *[("x1", "5")] * 3, ("valid", valid)])
    assert parsed.parameters == DEFAULT
    assert len(parsed.problems) == 1


@given(st.lists(st.tuples(st.sampled_from(["x1", "mask", "valid", "show", "guess1", "position"]),
                          st.text(max_size=30)), max_size=12))  # fmt: skip
@settings(deadline=None)
def test_parse_never_raises(query: list[tuple[str, Any]]) -> None:
    parsed = CHAPTER.parse(query)
    assert parse(CHAPTER.query(parsed.parameters)).parameters == parsed.parameters
