"""Every number's own arithmetic: the formula that is shown is read back and calculated."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chapters import addresses
from app.chapters.arithmetic import Explanation, UnknownAddress, explain
from app.chapters.calculation import OutputProjection, WorkedExample, calculate
from app.chapters.worked_example import load
from app.paths import WORKED_EXAMPLES

EXAMPLE = load(WORKED_EXAMPLES / "three_positions")
EDITED = EXAMPLE.edit("edited").X
CORE = {
    *("math", "mtable", "mtr", "mtd", "mrow", "mi", "mn", "mo", "mtext", "mspace"),
    *("mfrac", "msqrt", "msub", "msup", "msubsup", "munder"),
}


def another_example() -> WorkedExample:
    """Four positions, five coordinates, three heads, d_k = 3, d_v = 1: nothing as in the toy."""
    rng = np.random.default_rng(11)
    W_O = OutputProjection("mixed", "Mixed", "", rng.normal(size=(3, 5)).round(2))
    return replace(
        EXAMPLE,
        X=rng.normal(size=(4, 5)).round(2),
        W_Q=rng.normal(size=(3, 5, 3)).round(2),
        W_K=rng.normal(size=(3, 5, 3)).round(2),
        W_V=rng.normal(size=(3, 5, 1)).round(2),
        output_projections=(W_O,),
        edits=(),
        gamma=rng.normal(size=5).round(2),
        beta=rng.normal(size=5).round(2),
    )


STATES = {
    "another example": calculate(another_example()),
    "original": calculate(EXAMPLE),
    "edited": calculate(EXAMPLE, EDITED, "all", False, "averaged"),
    "equal": calculate(EXAMPLE, EXAMPLE.edit("equal").X, "all", True, "swapped"),
    "constant": calculate(EXAMPLE, EXAMPLE.edit("constant").X, gamma=[0, 1, -2, 3], epsilon=0.5),
    "huge": calculate(EXAMPLE, EXAMPLE.edit("huge").X, "all"),
    "nothing allowed": calculate(
        EXAMPLE, EDITED, np.array([[True, False, False], [False] * 3, [True, False, True]])
    ),
}


# ── Reading a formula back ───────────────────────────────────────────────────────────────────────


def expression(element: ElementTree.Element) -> str:
    """MathML of numbers as a Python expression; a KeyError for anything that is not arithmetic."""
    tag, children = element.tag, [expression(child) for child in element]
    text = (element.text or "").strip()
    match tag:
        case "mn":
            return text
        case "mo":
            return {"−": "-", "×": "*", "+": "+", "(": "(", ")": ")", ",": ","}[text]
        case "mi":
            return {"e": "math.e", "max": "max", "∞": "math.inf"}[text]
        case "mrow" | "mtd":
            return "(" + " ".join(children) + ")" if tag == "mtd" else " ".join(children)
        case "mfrac":
            return f"(({children[0]}) / ({children[1]}))"
        case "msqrt":
            return f"math.sqrt({' '.join(children)})"
        case "msup":
            return f"(({children[0]}) ** ({children[1]}))"
        case _:
            raise KeyError(tag)


def lines(explanation: Explanation) -> list[tuple[str, ElementTree.Element]]:
    """Relation and right-hand side, line by line."""
    table = ElementTree.fromstring(str(explanation.mathml))[0]
    return [(row[1][0].text or "", row[2]) for row in table]


def numeric_lines(explanation: Explanation) -> list[tuple[str, float]]:
    """The lines that are numbers alone, calculated."""
    found = []
    for relation, right in lines(explanation):
        try:
            text = expression(right)
        except KeyError:
            continue
        found.append(
            (relation, float(eval(text, {"math": math, "max": lambda *numbers: max(numbers)})))
        )
    return found


@cache
def explained(state: str) -> dict[str, Explanation]:
    """Every number of a state, explained, by address."""
    calculation = STATES[state]
    every = (str(each) for each in addresses.everything(calculation))
    return {address: explain(calculation, address) for address in every}


@pytest.mark.parametrize("state", sorted({*STATES} - {"huge"}))
def test_each_line_of_each_formula_comes_to_the_value(state: str) -> None:
    for explanation in explained(state).values():
        if explanation.value is None:
            continue
        calculated = numeric_lines(explanation)
        assert calculated, explanation.address
        for relation, number in calculated:
            assert number == pytest.approx(explanation.value, abs=5e-5), explanation.address
            if relation == "=" and len(calculated) == 1:
                assert number == explanation.value, explanation.address


@pytest.mark.parametrize("state", STATES)
def test_each_operand_stands_in_the_formula(state: str) -> None:
    for explanation in explained(state).values():
        shown = re.findall(r"<mn>(.*?)</mn>", str(explanation.mathml))
        for operand in explanation.operands:
            other = explained(state)[operand]
            assert other.value is not None, f"{explanation.address} uses a blocked {operand}"
            digits = re.findall(r"<mn>(.*?)</mn>", str(other.mathml))
            assert digits[-1] in shown or "∞" in str(other.mathml), (explanation.address, operand)


@pytest.mark.parametrize("state", STATES)
def test_values_are_the_calculations_own(state: str) -> None:
    calculation = STATES[state]
    for address in addresses.everything(calculation):
        explanation = explained(state)[str(address)]
        stored = float(addresses.numbers(calculation, address))
        if explanation.value is None:
            assert explanation.full == ""
            assert explanation.operands == ()
        else:
            assert math.isfinite(explanation.value)
            assert explanation.value == stored == float(explanation.full)


@pytest.mark.parametrize("state", STATES)
def test_formulas_are_valid_core_mathml_with_real_minus_signs(state: str) -> None:
    for explanation in explained(state).values():
        root = ElementTree.fromstring(str(explanation.mathml))
        assert root.tag == "math"
        for element in root.iter():
            assert element.tag in CORE
            assert set(element.attrib) <= {
                "class",
                "display",
                "displaystyle",
                "form",
                "stretchy",
                "width",
            }
            assert "-" not in (element.text or "")
            if element.tag in ("mfrac", "msub", "msup", "munder"):
                assert len(element) == 2
            if element.tag == "msubsup":
                assert len(element) == 3


@given(st.data())
def test_any_state_can_be_explained(data: st.DataObject) -> None:
    number = st.floats(-1e6, 1e6)
    X = data.draw(st.lists(st.lists(number, min_size=4, max_size=4), min_size=3, max_size=3))
    row = st.lists(number, min_size=4, max_size=4)
    calculation = calculate(
        EXAMPLE,
        X,
        data.draw(st.sampled_from(["causal", "all"])),
        data.draw(st.booleans()),
        data.draw(st.sampled_from(["identity", "swapped", "averaged"])),
        data.draw(row),
        data.draw(row),
        data.draw(st.floats(1e-300, 1e6)),
    )
    every = [str(address) for address in addresses.everything(calculation)]
    for address in data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=20)):
        explanation = explain(calculation, address)
        ElementTree.fromstring(str(explanation.mathml))
        assert explanation.title
        assert all(note.endswith(".") for note in explanation.notes)


# ── What is said ─────────────────────────────────────────────────────────────────────────────────


def test_a_weight() -> None:
    explanation = explain(STATES["original"], "head1.weights.3.3")
    assert explanation.title == "Weight of position 3 on key 3, head 1"
    assert explanation.operands == ("head1.exponentials.3.3", "head1.denominator.3")
    assert explanation.value == pytest.approx(0.503490, abs=5e-7)
    assert explanation.full == repr(explanation.value)
    assert explanation.notes == (
        "The row maximum, 1.414214, was subtracted first; that changes no weight.",
    )
    assert [relation for relation, _ in lines(explanation)] == ["=", "≈", "≈", "≈"]
    shown = str(explanation.mathml)
    assert shown.endswith('<mtd class="rhs"><mn>0.503490</mn></mtd></mtr></mtable></math>')
    assert '<mi>e</mi><mrow><mo form="prefix">−</mo><mn>0.707107</mn></mrow>' in shown


def test_an_exact_score_is_equal_not_about() -> None:
    explanation = explain(STATES["original"], "head1.scores.3.3")
    assert [relation for relation, _ in lines(explanation)] == ["=", "=", "="]
    assert numeric_lines(explanation) == [("=", 2.0), ("=", 2.0)]
    operands = ("head1.Q.3.1", "head1.K.3.1", "head1.Q.3.2", "head1.K.3.2")
    assert explanation.operands == operands
    assert 'class="role-query"' in str(explanation.mathml)
    assert 'class="role-key"' in str(explanation.mathml)


def test_negative_operands_get_brackets() -> None:
    """Key 3 of head 1 after the edit is (2, −1), and so is its query."""
    shown = str(explain(STATES["edited"], "head1.scores.3.3").mathml)
    bracketed = '<mo stretchy="false">(</mo><mo form="prefix">−</mo><mn>1</mn>'
    assert bracketed in shown


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("head1.weights.2.3", "Its weight is exactly 0, and its value has no part."),
        ("head2.exponentials.1.2", "It has no term in the sum."),
        ("head1.masked_scores.1.3", "Minus infinity stands for blocked"),
        ("head1.shifted.2.3", "Blocked"),
    ],
)
def test_a_blocked_place_says_why(address: str, words: str) -> None:
    explanation = explain(STATES["original"], address)
    *_, i, j = address.split(".")
    assert explanation.notes[0] == f"Blocked: key {j} lies in position {i}'s future."
    assert explanation.value is None
    assert any(words in note for note in explanation.notes)


def test_a_custom_mask_is_not_called_the_future() -> None:
    explanation = explain(STATES["nothing allowed"], "head1.weights.3.2")
    assert explanation.notes[0] == "Blocked: the mask forbids key 2 to position 3."


@pytest.mark.parametrize("name", ["row_max.2", "denominator.2"])
def test_a_row_with_nothing_allowed_has_no_number(name: str) -> None:
    explanation = explain(STATES["nothing allowed"], f"head1.{name}")
    assert explanation.value is None
    assert explanation.notes == (
        "Position 2 may attend to no key at all, so there is nothing to share out.",
    )


def test_the_output_of_nothing_is_said_to_be_no_answer() -> None:
    explanation = explain(STATES["nothing allowed"], "head1.output.2.1")
    assert explanation.value == 0
    assert explanation.notes[-1] == "The 0 here stands for no answer."


@pytest.mark.parametrize(
    ("state", "address", "note"),
    [
        ("original", "X.1.1", "An input: nothing was calculated."),
        ("original", "gamma.2", "An input: nothing was calculated."),
        ("original", "epsilon", "An input: nothing was calculated."),
        ("original", "head2.W_V.1.1", "Set by hand in this example"),
        ("original", "head1.Q.1.2", "This column of W_Q picks coordinate 2 of the input."),
        ("original", "head1.scores.1.3", "Calculated, but not used: key 3 lies in position 1's"),
        ("original", "head1.denominator.2", "Key 3 is blocked and has no term."),
        ("original", "head1.output.1.1", "Keys 2 and 3 are blocked and have no term."),
        ("original", "head1.weights.1.1", "Key 1 is the only one allowed, so it gets the whole"),
        ("original", "head1.scaled_scores.1.1", "d_k is 2: a query and a key have 2 coordinates"),
        ("edited", "head1.scaled_scores.1.1", "switched off: the score stays as it is."),
        ("original", "concat.2.3", "Coordinate 1 of head 2, put beside the others"),
        ("original", "output.2.3", "(identity) picks coordinate 3 of the concatenation: head 2's"),
        ("equal", "output.2.3", "(heads swapped) picks coordinate 1 of the concatenation: head"),
        ("edited", "output.1.2", "(heads averaged) averages coordinates 2 and 4 of the"),
        ("edited", "output.1.2", "head 1's output 2 and head 2's output 2."),
        ("edited", "output.1.2", "which head said what is lost."),
        ("original", "variance.1", "Divided by the number of coordinates, 4: the population"),
        ("original", "mean.1", "Over the 4 coordinates of this position, not over the positions."),
        ("constant", "layer_norm.1.2", "only β is left; ε keeps the root from 0."),
        ("constant", "layer_norm.2.1", "γ is 0 in this coordinate, so only β is left."),
        ("huge", "head1.exponentials.3.1", "is smaller than any number that fits in 64 bits"),
        ("huge", "head1.weights.3.1", "its share is too small for 64 bits and became 0."),
        ("original", "head1.exponentials.3.3", "e to the power 0 is 1."),
    ],
)  # fmt: skip
def test_what_the_notes_say(state: str, address: str, note: str) -> None:
    assert any(note in each for each in explain(STATES[state], address).notes)


def test_the_matrix_entries_of_w_o_are_operands() -> None:
    explanation = explain(STATES["edited"], "output.3.1")
    entries = [operand for operand in explanation.operands if operand.startswith("W_O")]
    assert entries == ["W_O.1.1", "W_O.2.1", "W_O.3.1", "W_O.4.1"]
    assert str(explanation.mathml).count("<mn>0.5</mn>") == 2


@pytest.mark.parametrize(
    "address", ["", "head1.weights", "head1.weights.3", "X.4.1", "<b>", "mean"]
)
def test_what_is_no_number_is_refused(address: str) -> None:
    with pytest.raises(UnknownAddress):
        explain(STATES["original"], address)
