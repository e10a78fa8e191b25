"""Check yourself: questions whose answers are numbers of the state that is shown.

Each asks for a prediction first. The answer comes with the arithmetic that leads to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from app.chapters.arithmetic import Explanation, explain
from app.chapters.calculation import Calculation
from app.chapters.numbers import inline, short
from app.chapters.three_positions_state import GUESSES, Parameters, read_number
from app.paper.attention import softmax

TOLERANCE: Final = 0.02

Calculate = Callable[[Parameters], Calculation]


class Question(NamedTuple):
    """One question with its answer, and what the reader said."""

    number: int
    field: str
    text: str
    given: tuple[str, ...]
    """What is needed to work it out, a line each."""
    answer: float
    reason: str
    explanation: Explanation | None
    guess: str
    """As typed; empty while there is none."""
    right: bool | None
    """Whether the guess is within the tolerance; None without a guess."""
    revealed: bool
    within: float
    """How far a right guess may be from the answer."""


class _Draft(NamedTuple):
    text: str
    given: tuple[str, ...]
    answer: float
    reason: str = ""
    explanation: Explanation | None = None


def questions(state: Parameters, now: Calculation, calculate: Calculate) -> list[Question]:
    """The questions of a state, in order; `calculate` gives the numbers of another state."""
    drafts = [
        _score(state, now),
        _weight(state, now),
        _output(state, now),
        _offset(state, now),
        _future(state, now, calculate),
    ]
    result = []
    for number, (draft, guess) in enumerate(zip(drafts, state.guesses, strict=True), start=1):
        said = read_number(guess) if guess else None
        within = max(TOLERANCE, TOLERANCE * abs(draft.answer) / 2)
        result.append(
            Question(
                number,
                f"guess{number}",
                *draft,
                guess,
                None if said is None else abs(said - draft.answer) <= within,
                said is not None or state.reveal == number,
                within,
            )
        )
    assert len(result) == GUESSES
    return result


def _score(state: Parameters, now: Calculation) -> _Draft:
    i = state.position
    j = _allowed(now, i)[0]
    head = now.heads[0]
    explanation = explain(now, f"head1.scaled_scores.{i}.{j}")
    divided = f", divided by √{head.Q.shape[1]}" if state.scaled else ""
    return _Draft(
        f"What is the score of position {i} for key {j} in head 1{divided}?",
        (f"Query {i}: {_vector(head.Q[i - 1])}", f"Key {j}: {_vector(head.K[j - 1])}"),
        float(head.scaled_scores[i - 1, j - 1]),
        "A product a coordinate, added up" + (", then divided." if state.scaled else "."),
        explanation,
    )


def _weight(state: Parameters, now: Calculation) -> _Draft:
    i = state.position
    allowed = _allowed(now, i)
    j = allowed[-1]
    head = now.heads[0]
    scores = ", ".join(short(float(head.masked_scores[i - 1, key - 1])) for key in allowed)
    return _Draft(
        f"How much weight does position {i} give to key {j} in head 1?",
        (f"Allowed scores of position {i}: {scores}",),
        float(head.weights[i - 1, j - 1]),
        "With a single allowed key the share is 1, whatever its score."
        if len(allowed) == 1
        else "Only differences between the scores count.",
        explain(now, f"head1.weights.{i}.{j}"),
    )


def _output(state: Parameters, now: Calculation) -> _Draft:
    i = state.position
    head = now.heads[-1]
    number = len(now.heads)
    lines = [
        f"Key {j}: weight {short(float(head.weights[i - 1, j - 1]))}, "
        f"value {_vector(head.V[j - 1])}"
        for j in _allowed(now, i)
    ]
    return _Draft(
        f"What is the first coordinate that head {number} returns for position {i}?",
        tuple(lines),
        float(head.output[i - 1, 0]),
        "Each value’s first coordinate, times its weight, added up.",
        explain(now, f"head{number}.output.{i}.1"),
    )


def _offset(state: Parameters, now: Calculation) -> _Draft:
    i = state.position
    allowed = _allowed(now, i)
    j = allowed[0]
    head = now.heads[0]
    scores = np.array([head.masked_scores[i - 1, key - 1] for key in allowed])
    shifted = softmax(scores + 5.0)
    return _Draft(
        f"Add 5 to every allowed score of position {i} in head 1. "
        f"What is the weight of key {j} then?",
        (
            f"Allowed scores now: {', '.join(short(float(score)) for score in scores)}",
            f"Weight of key {j} now: {short(float(head.weights[i - 1, j - 1]))}",
        ),
        float(shifted[0]),
        "The same as before: every exponential, and their sum, is multiplied by the same e⁵. That "
        "is why the largest score may be subtracted. Dividing the scores is another matter.",
    )


def _future(state: Parameters, now: Calculation, calculate: Calculate) -> _Draft:
    n = len(state.x)
    asked = max(1, n - 1)
    last = state.x[-1]
    bigger = (*state.x[:-1], (last[0] + 1.0, *last[1:]))
    after = calculate(replace(state, x=bigger, show=""))
    change = float(np.abs(after.concat[asked - 1] - now.concat[asked - 1]).max())
    if asked == n or now.allowed[asked - 1, n - 1]:
        reason = f"Position {asked} may attend to position {n}, so it notices."
    else:
        reason = (
            f"Nothing at all, not even in the last bit: for position {asked} that row is a "
            "forbidden key, and its own query, keys and values are what they were."
        )
    return _Draft(
        f"Add 1 to the first coordinate of position {n}. By how much does the most affected "
        f"coordinate of position {asked}’s concatenated heads change?",
        (
            "Mask: " + ("causal" if state.mask == "causal" else "all positions"),
            f"Concatenation of position {asked} now: {_vector(now.concat[asked - 1], short)}",
        ),
        change,
        reason,
    )


def _allowed(now: Calculation, i: int) -> list[int]:
    return [j for j in range(1, len(now.X) + 1) if now.allowed[i - 1, j - 1]]


def _vector(row: np.ndarray, write: Callable[[float], str] = inline) -> str:
    return f"({', '.join(write(float(value)) for value in row)})"
