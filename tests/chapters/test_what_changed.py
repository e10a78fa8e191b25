"""What changed and why: told cases, and an oracle that puts each difference back alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chapters.calculation import Calculation, calculate
from app.chapters.changes import IDENTICAL, PartChange
from app.chapters.what_changed import PositionChange, WhatChanged, what_changed
from app.chapters.worked_example import load
from app.paper.errors import ShapeError
from app.paths import WORKED_EXAMPLES

EXAMPLE = load(WORKED_EXAMPLES / "three_positions")
REFERENCE = calculate(EXAMPLE)
Choices = dict[str, Any]


def edit(name: str) -> np.ndarray:
    return EXAMPLE.edit(name).X


def rows(**replaced: list[float]) -> np.ndarray:
    """The example's X with the named rows replaced: x1, x2 or x3."""
    X = EXAMPLE.X.copy()
    for name, row in replaced.items():
        X[int(name[1:]) - 1] = row
    return X


def told(reference: Choices | None = None, **current: Any) -> WhatChanged:
    return what_changed(calculate(EXAMPLE, **(reference or {})), calculate(EXAMPLE, **current))


# ── Told cases ───────────────────────────────────────────────────────────────────────────────────


def test_nothing_changed() -> None:
    answer = told()
    assert answer.differences == ()
    for place, position in enumerate(answer.positions, start=1):
        assert position.headline == f"Position {place}: identical to the last bit"
        assert position.reason == "Nothing that it is calculated from was changed."
        assert position.largest == 0


def test_the_chapters_point() -> None:
    """An edited future under the causal mask."""
    answer = told(X=edit("edited"))
    assert answer.differences == ("Row 3 was edited: (1, 1, 0, 0) became (2, −1, 1, 0).",)
    first, second, third = answer.positions
    assert first.headline == "Position 1: identical to the last bit"
    assert first.reason == "It may attend only to itself, and its own row is unchanged."
    assert second.headline == "Position 2: identical to the last bit"
    assert second.reason == "The edited row 3 is a forbidden key, and its own query is unchanged."
    assert third.headline == "Position 3: changed by up to 2.210"
    assert third.reason == "The edited row is its own input."
    assert third.layer_norm.address == "layer_norm.3.2"
    assert third.largest == pytest.approx(2.209725, abs=5e-7)


def test_the_same_edit_when_all_may_attend() -> None:
    answer = told({"mask": "all"}, X=edit("edited"), mask="all")
    for position in answer.positions[:2]:
        assert not position.identical
        assert position.reason == "It may attend to position 3, which was edited."
    assert answer.positions[2].reason == "The edited row is its own input."


def test_the_mask_alone() -> None:
    first, second, third = told(mask="all").positions
    assert first.reason == "It may now attend to positions 2 and 3 as well."
    assert second.reason == "It may now attend to position 3 as well."
    assert third.headline.endswith(IDENTICAL)
    assert third.reason == "The mask changed, but it may attend to the same keys as before."
    first, second, third = told({"mask": "all"}).positions
    assert first.reason == "It may no longer attend to positions 2 and 3."
    assert third.identical


def test_the_mask_lets_an_edited_row_in() -> None:
    answer = told(X=edit("edited"), mask="all")
    assert answer.differences[1] == "The mask is all positions instead of causal."
    first, second, _ = answer.positions
    assert second.reason == "It may now attend to position 3 as well, which was edited."
    assert first.reason == (
        "It may now attend to positions 2 and 3 as well, of which position 3 was edited."
    )


def test_an_earlier_row() -> None:
    """Row 1 edited: everyone after it may attend to it."""
    first, second, third = told(X=rows(x1=[2, 1, 0, 1])).positions
    assert first.reason == "The edited row is its own input."
    assert second.reason == third.reason == "It may attend to position 1, which was edited."


def test_two_rows() -> None:
    first, second, third = told(X=rows(x2=[3, 0, 0, 2], x3=[0, 2, 2, 0])).positions
    assert first.identical
    assert first.reason == "It may attend only to itself, and its own row is unchanged."
    assert second.reason == "The edited row is its own input."
    assert third.reason == (
        "The edited row is its own input. It may attend to position 2, which was edited."
    )


def test_rows_that_nobody_else_sees_are_listed_together() -> None:
    mask = np.array([[True, True, False], [False, True, False], [False, False, True]])
    current = {"X": rows(x2=[3, 0, 0, 2], x3=[0, 2, 2, 0]), "mask": mask}
    first = told({"mask": mask}, **current).positions[0]
    assert first.reason == "It may attend to position 2, which was edited."
    assert told({"mask": mask}, X=rows(x1=[9, 9, 9, 8]), mask=mask).positions[2].identical
    mask = np.array([[True, False, False], [True, False, False], [True, False, False]])
    answer = told({"mask": mask}, X=rows(x2=[3, 0, 0, 2], x3=[0, 2, 2, 0]), mask=mask)
    assert answer.positions[1].reason == "The edited row is its own input."
    assert answer.positions[1].heads[0].reason.endswith("The edited row 3 is a forbidden key.")


def test_an_edit_in_a_coordinate_that_a_head_does_not_read_as_query_or_key() -> None:
    """Row 1, coordinate 3: a value to head 1, query and key to head 2."""
    first, second, _ = told(X=rows(x1=[1, 0, 5, 0])).positions
    one, two = first.heads
    assert one.words == "changed by up to 4.000"
    assert two.identical
    assert two.reason == (
        "Its own row was edited, but with a single allowed key the weight is 1 whatever the score, "
        "and the value is unchanged."
    )
    assert second.heads[1].identical
    assert second.heads[1].reason == "What it reads changed, but no weight and no value did."


def test_scaling() -> None:
    answer = told(scaled=False)
    assert answer.differences == ("The scores are not divided by the root of d_k.",)
    first, second, third = answer.positions
    assert first.identical
    assert first.reason.startswith("It attends to a single key, whose weight is 1")
    assert second.reason == "Its scores are no longer divided by the root of d_k."
    assert third.heads[1].identical
    assert third.heads[1].reason == (
        "Its scores are all equal, so dividing them changes no weight."
    )
    back = told({"scaled": False})
    assert back.positions[1].reason == "Its scores are now divided by the root of d_k."
    assert back.differences == ("The scores are divided by the root of d_k.",)


def test_scaling_equal_rows_changes_nobody() -> None:
    answer = told({"X": edit("equal")}, X=edit("equal"), scaled=False)
    assert all(position.identical for position in answer.positions)
    assert answer.positions[2].reason == (
        "Its scores are all equal, so dividing them changes no weight."
    )


def test_layer_norm_alone() -> None:
    answer = told(gamma=[1, 1, 1, 2], beta=[0, 0, 3, 0], epsilon=0.5)
    assert answer.differences == (
        "γ is (1, 1, 1, 2) instead of (1, 1, 1, 1).",
        "β is (0, 0, 3, 0) instead of (0, 0, 0, 0).",
        "ε is 0.5 instead of 1×10⁻⁶.",
    )
    for position in answer.positions:
        assert position.headline.startswith(
            f"Position {position.position}: heads identical, LayerNorm changed by up to "
        )
        assert position.reason == "LayerNorm has another γ, β and ε."
        for head in position.heads:
            assert head.reason == "Nothing that it is calculated from was changed."


def test_a_scale_that_meets_zeros_changes_nothing() -> None:
    """A constant row is normalised to zeros, and γ times zero is zero."""
    answer = told({"X": edit("constant")}, X=edit("constant"), gamma=[2, 3, 4, 5])
    assert answer.positions[0].identical
    assert answer.positions[0].reason == "γ changed, but not what LayerNorm gives here."
    assert answer.positions[1].reason == "LayerNorm has another γ."


def test_w_o_alone() -> None:
    """Positions 1 and 2 get the same from both heads, so that swapping them is not noticed."""
    answer = told(W_O="swapped")
    assert answer.differences == ("W_O is heads swapped instead of identity.",)
    first, second, third = answer.positions
    for position in (first, second):
        assert position.identical
        assert position.reason == "W_O changed, but makes the same of what the heads give here."
    assert third.headline.startswith("Position 3: heads identical, LayerNorm changed")
    assert third.reason == "W_O joins the heads differently."


def test_heads_that_change_without_effect_on_layer_norm() -> None:
    """γ = 0 leaves β alone, whatever the heads give."""
    answer = told({"gamma": [0] * 4}, gamma=[0] * 4, X=rows(x1=[2, 1, 0, 1]))
    second = answer.positions[1]
    assert not second.identical
    assert second.layer_norm.identical
    assert second.headline.startswith("Position 2: heads changed by up to ")
    assert second.headline.endswith(", LayerNorm identical to the last bit")
    assert second.reason == "What the heads give is different, but comes to the same after them."


def test_a_changed_value_whose_weight_is_exactly_zero() -> None:
    """Head 1: q₃ = (100, 0), k₁ = (100, 0), k₂ = (−100, 0): the weight on key 2 underflows to 0."""
    reference = rows(x1=[100, 0, 1, 0], x2=[-100, 0, 0, 1], x3=[100, 0, 0, 0])
    current = reference.copy()
    current[1, 3] = 2
    third = told({"X": reference}, X=current).positions[2]
    assert third.heads[0].identical
    assert third.heads[0].reason == "What it reads changed, but only where its weight is exactly 0."


def test_a_row_with_nothing_allowed() -> None:
    mask = np.array([[True, False, False], [False, False, False], [True, True, True]])
    answer = told({"mask": mask}, mask=mask, X=edit("edited"), scaled=False)
    second = answer.positions[1]
    assert second.identical
    assert second.reason.startswith("It may attend to nothing.")
    own = told({"mask": mask}, mask=mask, X=rows(x2=[5, 5, 5, 0])).positions[1]
    assert own.heads[0].identical
    assert own.heads[0].reason == "It may attend to nothing."
    assert own.reason == "The edited row is its own input."


def test_an_undefined_number_is_a_change() -> None:
    broken = replace(REFERENCE, layer_norm=np.full((3, 4), np.nan))
    position = what_changed(REFERENCE, broken).positions[0]
    assert position.headline.endswith("changed to or from something that is no number")


def test_the_sign_of_a_zero_is_a_bit() -> None:
    zero = replace(REFERENCE, layer_norm=np.zeros((3, 4)))
    minus = replace(REFERENCE, layer_norm=-np.zeros((3, 4)))
    part = what_changed(zero, minus).positions[0].layer_norm
    assert (part.identical, part.words) == (False, "changed in the sign of a zero")


def test_two_examples_cannot_be_compared() -> None:
    smaller = replace(REFERENCE, X=np.zeros((2, 4)))
    with pytest.raises(ShapeError, match="reference: expected a calculation of the shape"):
        what_changed(smaller, REFERENCE)


# ── The oracle ───────────────────────────────────────────────────────────────────────────────────

NUMBER = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 100.0])
ROW = st.lists(NUMBER, min_size=4, max_size=4)
STATE = st.fixed_dictionaries(
    {
        "X": st.tuples(ROW, ROW, ROW),
        "mask": st.sampled_from(["causal", "all"]),
        "scaled": st.booleans(),
        "W_O": st.sampled_from(["identity", "swapped", "averaged"]),
        "gamma": st.sampled_from([[1, 1, 1, 1], [0, 0, 0, 0], [2, -1, 1, 1]]),
        "beta": st.sampled_from([[0, 0, 0, 0], [1, 0, 0, 2]]),
        "epsilon": st.sampled_from([1e-6, 0.5]),
    }
)
SIGNS = {"gamma": "γ", "beta": "β", "epsilon": "ε"}


def calculated(state: Choices) -> Calculation:
    return calculate(EXAMPLE, **state)


def mixed(data: st.DataObject) -> tuple[Choices, Choices]:
    """Two states that differ in some places and agree in others."""
    reference, other = data.draw(STATE), data.draw(STATE)
    taken = data.draw(st.sets(st.sampled_from([*reference, 0, 1, 2])))
    current = {name: other[name] if name in taken else reference[name] for name in reference}
    current["X"] = tuple(
        other["X"][r] if r in taken and "X" in taken else reference["X"][r] for r in range(3)
    )
    return reference, current


def parts(position: PositionChange, calculation: Calculation) -> list[tuple[PartChange, bytes]]:
    i = position.position - 1
    heads = zip(position.heads, calculation.heads, strict=True)
    found = [(part, steps.output[i].tobytes()) for part, steps in heads]
    return [*found, (position.layer_norm, calculation.layer_norm[i].tobytes())]


@given(st.data())
def test_identical_is_bit_by_bit_and_every_verdict_has_a_reason(data: st.DataObject) -> None:
    reference, current = (calculated(state) for state in mixed(data))
    for position in what_changed(reference, current).positions:
        i = position.position - 1
        before = parts(position, reference)
        for (part, now), (_, then) in zip(parts(position, current), before, strict=True):
            assert part.identical == (now == then)
            assert part.reason
            assert part.reason.endswith(".")
            assert part.identical == (part.address == "")
        sizes = [
            np.abs(a.output[i] - b.output[i]).max()
            for a, b in zip(reference.heads, current.heads, strict=True)
        ]
        sizes.append(np.abs(reference.layer_norm[i] - current.layer_norm[i]).max())
        assert position.largest == max(sizes)
        assert position.identical == all(part.identical for part, _ in before)


@settings(max_examples=150)
@given(st.data())
def test_whatever_matters_is_named(data: st.DataObject) -> None:
    """Put one difference back alone: where that changes a part, the part's reason has to say so."""
    reference, current = mixed(data)
    now = calculated(current)
    answer = what_changed(calculated(reference), now)
    for name, words, undone in differences(reference, current):
        then = calculated(undone)
        for position in answer.positions:
            for (part, present), (_, without) in zip(
                parts(position, now), parts(position, then), strict=True
            ):
                if part.identical or present == without:
                    continue
                accepted = words(position.position)
                assert any(each in part.reason for each in accepted), (name, part, accepted)


def differences(reference: Choices, current: Choices) -> list[tuple[str, Any, Choices]]:
    """Each difference: its name, the words that name it at a position, and the state without it."""
    found: list[tuple[str, Any, Choices]] = []
    for r in range(3):
        if reference["X"][r] != current["X"][r]:
            X = tuple(reference["X"][k] if k == r else current["X"][k] for k in range(3))
            found.append((f"row {r + 1}", row_words(r + 1), {**current, "X": X}))
    named = {
        "mask": ("It may now attend", "It may no longer attend"),
        "scaled": ("divided by the root",),
        "W_O": ("W_O joins",),
    }
    for name in ("mask", "scaled", "W_O", *SIGNS):
        if reference[name] != current[name]:
            accepted = named.get(name, (SIGNS.get(name, ""),))
            undone = {**current, name: reference[name]}
            found.append((name, lambda _, accepted=accepted: accepted, undone))
    return found


def row_words(row: int) -> Any:
    """How an edited row is named at its own position, and at another one."""
    listed = [f"position {row}", f" {row} and", f"and {row}", f"positions {row}", f", {row}"]
    return lambda position: ["its own input"] if position == row else listed


@given(st.data())
def test_only_blocked_rows_are_called_forbidden(data: st.DataObject) -> None:
    reference, current = mixed(data)
    now = calculated(current)
    answer = what_changed(calculated(reference), now)
    for position in answer.positions:
        i = position.position - 1
        for part in (*position.heads, position.layer_norm):
            if "forbidden" in part.reason:
                assert not now.allowed[i].all()
            if "only to itself" in part.reason:
                assert np.flatnonzero(now.allowed[i]).tolist() == [i]
                assert reference["X"][i] == current["X"][i]
            if "its own query is unchanged" in part.reason:
                assert reference["X"][i] == current["X"][i]
            if "Nothing that it is calculated from" in part.reason:
                assert part.identical
