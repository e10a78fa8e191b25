"""The numbers of one head: projections, scores, softmax, and the values that are mixed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from app.chapters import mathml, numbers
from app.chapters.arithmetic.place import (
    Arithmetic,
    Kind,
    Place,
    blocked,
    blocked_terms,
    count,
    nothing,
    picked,
    picks,
    products,
    relation,
)
from app.chapters.mathml import Role, indexed

BLOCKED: Final = mathml.words("blocked")


def _projection(letter: str, word: str, role: Role) -> Kind:
    def arithmetic(place: Place) -> Arithmetic:
        i, j = place.i, place.j
        d_model = place.calculation.example.d_model
        pairs = [
            (place.there("X", i, c), place.here(f"W_{letter}", c, j)) for c in range(1, d_model + 1)
        ]
        formula = mathml.summed(
            "c",
            mathml.row(
                indexed("x", i, "c"), mathml.operator("⋅"), indexed("W", "c", j, above=letter)
            ),
        )
        rows = picked([place.value(weight) for _, weight in pairs])
        notes = [f"This column of W_{letter} {picks(rows, 'the input')}."] if rows else []
        return Arithmetic(
            f"{word} of position {i}, coordinate {j}{place.of_head}",
            indexed(letter.lower(), i, j, role=role),
            [("=", formula), products(place, pairs)],
            [operand for pair in pairs for operand in pair],
            notes,
        )

    return arithmetic


def _score(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    d_k = place.calculation.example.d_k
    pairs = [(place.here("Q", i, c), place.here("K", j, c)) for c in range(1, d_k + 1)]
    formula = mathml.row(
        indexed("q", i, role="query"), mathml.operator("⋅"), indexed("k", j, role="key")
    )
    return Arithmetic(
        f"Score of position {i} for key {j}{place.of_head}",
        indexed("s", i, j),
        [("=", formula), products(place, pairs, ("query", "key"))],
        [operand for pair in pairs for operand in pair],
        _unused(place),
    )


def _scaled_score(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    score = place.here("scores", i, j)
    title = f"Scaled score of position {i} for key {j}{place.of_head}"
    left = indexed("s", i, j, above="scaled")
    if not place.calculation.scaled:
        note = "Dividing by the root of d_k is switched off: the score stays as it is."
        return Arithmetic(
            title, left, [("=", indexed("s", i, j))], [score], (note, *_unused(place))
        )
    d_k = place.calculation.example.d_k
    value = place.value(score)
    symbols = mathml.fraction(indexed("s", i, j), mathml.root(indexed("d", "k")))
    filled = mathml.fraction(mathml.number(value), mathml.root(mathml.digits(str(d_k))))
    note = f"d_k is {d_k}: a query and a key have {count(d_k, 'coordinate')} in each head."
    return Arithmetic(
        title,
        left,
        [("=", symbols), (relation([value]), filled)],
        [score],
        (note, *_unused(place)),
    )


def _masked_score(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    title = f"Masked score of position {i} for key {j}{place.of_head}"
    left = indexed("s", i, j, above="masked")
    if not place.allowed(i, j):
        infinity = mathml.number(-math.inf)
        note = "Minus infinity stands for blocked: e to that power is 0."
        return blocked(place, title, left, infinity, note)
    note = f"Key {j} is allowed to position {i}, so the score passes unchanged."
    symbol = indexed("s", i, j, above="scaled")
    return Arithmetic(title, left, [("=", symbol)], [place.here("scaled_scores", i, j)], (note,))


def _row_max(place: Place) -> Arithmetic:
    i = place.i
    keys = place.allowed_keys(i)
    title = f"Largest score of position {i}{place.of_head}"
    left = indexed("m", i)
    if not keys:
        return nothing(place, title, left)
    operands = [place.here("masked_scores", i, j) for j in keys]
    values = [place.value(operand) for operand in operands]
    largest = mathml.identifier("max")
    filled = mathml.function(largest, *map(mathml.number, values))
    symbols = mathml.row(
        mathml.underneath(largest, mathml.identifier("j")),
        mathml.space(),
        indexed("s", i, "j", above="masked"),
    )
    notes = [
        "Only used to keep the exponentials from overflowing; the weights do not depend on it."
    ]
    return Arithmetic(
        title,
        left,
        [("=", symbols), (relation(values), filled)],
        operands,
        [*notes, *blocked_terms(place, "is not considered", "are not considered")],
    )


def _shifted(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    title = f"Shifted score of position {i} for key {j}{place.of_head}"
    left = indexed("s", i, j, above="shifted")
    if not place.allowed(i, j):
        return blocked(place, title, left, mathml.number(-math.inf))
    operands = [place.here("masked_scores", i, j), place.here("row_max", i)]
    score, largest = (place.value(operand) for operand in operands)
    symbols = mathml.row(indexed("s", i, j, above="masked"), mathml.operator("−"), indexed("m", i))
    filled = mathml.row(
        mathml.number(score), mathml.operator("−"), mathml.number(largest, bracketed=True)
    )
    return Arithmetic(
        title,
        left,
        [("=", symbols), (relation([score, largest]), filled)],
        operands,
        (
            f"The row maximum, {numbers.inline(largest)}, is subtracted from each score of the row."
            " That changes no weight; it keeps the exponentials from overflowing.",
        ),
    )


def _exponential(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    title = f"Exponential for position {i} and key {j}{place.of_head}"
    left = indexed("e", i, j)
    if not place.allowed(i, j):
        return blocked(place, title, left, BLOCKED, "It has no term in the sum.")
    operand = place.here("shifted", i, j)
    value = place.value(operand)
    symbols = mathml.e_to(indexed("s", i, j, above="shifted"))
    notes = []
    if value == 0:
        notes.append("The largest score of a row becomes 0, and e to the power 0 is 1.")
    if place.value(place.address) == 0:
        notes.append(
            f"e to the power {numbers.inline(value)} is smaller than any number that fits in "
            "64 bits, so it is 0 here."
        )
    filled = mathml.e_to(mathml.number(value))
    return Arithmetic(title, left, [("=", symbols), (relation([value]), filled)], [operand], notes)


def _denominator(place: Place) -> Arithmetic:
    i = place.i
    keys = place.allowed_keys(i)
    title = f"Sum of the exponentials of position {i}{place.of_head}"
    left = indexed("D", i)
    if not keys:
        return nothing(place, title, left)
    operands = [place.here("exponentials", i, j) for j in keys]
    values = [place.value(operand) for operand in operands]
    return Arithmetic(
        title,
        left,
        [
            ("=", mathml.summed("j", indexed("e", i, "j"))),
            (relation(values), mathml.total(map(mathml.number, values))),
        ],
        operands,
        blocked_terms(place, "has no term", "have no term"),
    )


def _weight(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    title = f"Weight of position {i} on key {j}{place.of_head}"
    left = indexed("a", i, j, role="weight")
    keys = place.allowed_keys(i)
    if not place.allowed(i, j):
        note = "Its weight is exactly 0, and its value has no part."
        return blocked(place, title, left, BLOCKED, note)
    operands = [place.here("exponentials", i, j), place.here("denominator", i)]
    powers = [place.value(place.here("shifted", i, key)) for key in keys]
    exponential, denominator = (place.value(operand) for operand in operands)
    with_powers = mathml.fraction(
        mathml.e_to(mathml.number(powers[keys.index(j)])),
        mathml.total(mathml.e_to(mathml.number(power)) for power in powers),
    )
    filled = mathml.fraction(mathml.number(exponential), mathml.number(denominator))
    largest = place.value(place.here("row_max", i))
    notes = [
        f"The row maximum, {numbers.inline(largest)}, was subtracted first; that changes no weight."
    ]
    if len(keys) == 1:
        notes.append(f"Key {j} is the only one allowed, so it gets the whole weight.")
    elif exponential == 0:
        notes.append("The key is allowed; its share is too small for 64 bits and became 0.")
    return Arithmetic(
        title,
        left,
        [
            ("=", mathml.fraction(indexed("e", i, j), indexed("D", i))),
            (relation(powers), with_powers),
            (relation([exponential, denominator]), filled),
        ],
        operands,
        [*notes, *blocked_terms(place, "has no term", "have no term")],
    )


def _head_output(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    keys = place.allowed_keys(i)
    title = f"Output of head {place.address.head} for position {i}, coordinate {j}"
    left = indexed("o", i, j)
    if not keys:
        # The next step needs a number: 0 stands for no answer, and the note says so.
        return replace(
            nothing(place, title, left, "The 0 here stands for no answer."), blocked=False
        )
    pairs = [(place.here("weights", i, key), place.here("V", key, j)) for key in keys]
    formula = mathml.summed(
        "l",
        mathml.row(
            indexed("a", i, "l", role="weight"),
            mathml.operator("⋅"),
            indexed("v", "l", j, role="value"),
        ),
    )
    return Arithmetic(
        title,
        left,
        [("=", formula), products(place, pairs, ("weight", "value"))],
        [operand for pair in pairs for operand in pair],
        blocked_terms(place, "has no term", "have no term"),
    )


def _unused(place: Place) -> list[str]:
    """A note on a score that is calculated although its place is blocked."""
    if place.allowed(place.i, place.j):
        return []
    return [f"Calculated, but not used: {place.why_blocked(place.i, place.j)}."]


KINDS: Final[dict[str, Kind]] = {
    "Q": _projection("Q", "Query", "query"),
    "K": _projection("K", "Key", "key"),
    "V": _projection("V", "Value", "value"),
    "scores": _score,
    "scaled_scores": _scaled_score,
    "masked_scores": _masked_score,
    "row_max": _row_max,
    "shifted": _shifted,
    "exponentials": _exponential,
    "denominator": _denominator,
    "weights": _weight,
    "output": _head_output,
}
"""By the name of the step in `AttentionSteps`."""
