"""The numbers after the heads: concatenation, W_O, residual connection, LayerNorm; and the
inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from markupsafe import Markup

from app.chapters import mathml
from app.chapters.addresses import Address
from app.chapters.arithmetic.place import (
    Arithmetic,
    Kind,
    Place,
    count,
    listed,
    picked,
    picks,
    products,
    relation,
)
from app.chapters.mathml import indexed

INPUT_NOTE: Final = "An input: nothing was calculated."
WEIGHT_NOTE: Final = "Set by hand in this example; a trained model would have learned it."


def _concat(place: Place) -> Arithmetic:
    i, r = place.i, place.j
    d_v = place.calculation.example.d_v
    head, j = (r - 1) // d_v + 1, (r - 1) % d_v + 1
    return Arithmetic(
        f"Concatenation for position {i}, coordinate {r}",
        indexed("c", i, r),
        [("=", indexed("o", i, j, above=f"head {head}"))],
        [Address(head, "output", (i, j))],
        (f"Coordinate {j} of head {head}, put beside the others; nothing is calculated.",),
    )


def _residual_sum(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    operands = [place.there("X", i, j), place.there("output", i, j)]
    values = [place.value(operand) for operand in operands]
    filled = mathml.row(
        mathml.number(values[0]), mathml.operator("+"), mathml.number(values[1], bracketed=True)
    )
    symbols = mathml.row(indexed("x", i, j), mathml.operator("+"), indexed("y", i, j))
    return Arithmetic(
        f"Residual sum of position {i}, coordinate {j}",
        indexed("r", i, j),
        [("=", symbols), (relation(values), filled)],
        operands,
        ("What came into the sublayer, plus what attention found.",),
    )


def _mean(place: Place) -> Arithmetic:
    i, d_model = place.i, place.calculation.example.d_model
    operands = [place.there("residual_sum", i, j) for j in range(1, d_model + 1)]
    values = [place.value(operand) for operand in operands]
    symbols = mathml.fraction(mathml.summed("j", indexed("r", i, "j")), indexed("d", "model"))
    filled = mathml.fraction(
        mathml.total(mathml.number(value, bracketed=bool(k)) for k, value in enumerate(values)),
        mathml.digits(str(d_model)),
    )
    return Arithmetic(
        f"Mean of position {i}",
        indexed("μ", i),
        [("=", symbols), (relation(values), filled)],
        operands,
        (f"Over the {count(d_model, 'coordinate')} of this position, not over the positions.",),
    )


def _variance(place: Place) -> Arithmetic:
    i, d_model = place.i, place.calculation.example.d_model
    operands = [place.there("residual_sum", i, j) for j in range(1, d_model + 1)]
    mean = place.there("mean", i)
    values = [place.value(operand) for operand in operands]
    deviation = mathml.row(indexed("r", i, "j"), mathml.operator("−"), indexed("μ", i))
    symbols = mathml.fraction(mathml.summed("j", mathml.squared(deviation)), indexed("d", "model"))
    center = mathml.number(place.value(mean), bracketed=True)
    filled = mathml.fraction(
        mathml.total(
            mathml.squared(mathml.row(mathml.number(value), mathml.operator("−"), center))
            for value in values
        ),
        mathml.digits(str(d_model)),
    )
    return Arithmetic(
        f"Variance of position {i}",
        indexed("σ", i, above="2"),
        [("=", symbols), (relation([*values, place.value(mean)]), filled)],
        [*operands, mean],
        (
            f"Divided by the number of coordinates, {d_model}: the population variance, "
            "as LayerNorm has it.",
        ),
    )


def _layer_norm(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    operands = [
        place.there("gamma", j),
        place.there("residual_sum", i, j),
        place.there("mean", i),
        place.there("variance", i),
        place.there("epsilon"),
        place.there("beta", j),
    ]
    values = [place.value(operand) for operand in operands]
    gamma, summand, mean, variance, epsilon, beta = values
    symbols = _normalised(
        indexed("γ", j),
        mathml.row(indexed("r", i, j), mathml.operator("−"), indexed("μ", i)),
        mathml.row(indexed("σ", i, above="2"), mathml.operator("+"), mathml.identifier("ε")),
        indexed("β", j),
    )
    filled = _normalised(
        mathml.number(gamma),
        mathml.row(
            mathml.number(summand), mathml.operator("−"), mathml.number(mean, bracketed=True)
        ),
        mathml.row(mathml.number(variance), mathml.operator("+"), mathml.number(epsilon)),
        mathml.number(beta, bracketed=True),
    )
    notes = ["The variance is the population's, and ε stands inside the root."]
    if variance == 0:
        notes = ["All coordinates equal their mean, so only β is left; ε keeps the root from 0."]
    elif gamma == 0:
        notes.append("γ is 0 in this coordinate, so only β is left.")
    return Arithmetic(
        f"LayerNorm of position {i}, coordinate {j}",
        mathml.below(
            mathml.function(mathml.identifier("LayerNorm"), indexed("r", i)), mathml.digits(str(j))
        ),
        [("=", symbols), (relation(values), filled)],
        operands,
        notes,
    )


def _output_projection(place: Place) -> Arithmetic:
    i, j = place.i, place.j
    calculation = place.calculation
    width = calculation.concat.shape[1]
    pairs = [(place.there("concat", i, r), place.there("W_O", r, j)) for r in range(1, width + 1)]
    formula = mathml.summed(
        "r",
        mathml.row(indexed("c", i, "r"), mathml.operator("⋅"), indexed("W", "r", j, above="O")),
    )
    notes = []
    rows = picked([place.value(weight) for _, weight in pairs])
    if rows:
        d_v = calculation.example.d_v
        heads = [f"head {(r - 1) // d_v + 1}'s output {(r - 1) % d_v + 1}" for r in rows]
        notes.append(
            f"This column of W_O ({calculation.W_O.title.lower()}) "
            f"{picks(rows, 'the concatenation')}: {listed(heads)}."
        )
    if calculation.W_O.note:
        notes.append(calculation.W_O.note)
    return Arithmetic(
        f"Output of the attention sublayer for position {i}, coordinate {j}",
        indexed("y", i, j),
        [("=", formula), products(place, pairs)],
        [operand for pair in pairs for operand in pair],
        notes,
    )


def _normalised(gamma: Markup, deviation: Markup, variance: Markup, beta: Markup) -> Markup:
    """The formula of LayerNorm with what stands in its places."""
    return mathml.row(
        gamma,
        mathml.operator("×"),
        mathml.fraction(deviation, mathml.root(variance)),
        mathml.operator("+"),
        beta,
    )


def _given(title: Callable[[Place], str], left: Callable[[Place], Markup], note: str) -> Kind:
    """The arithmetic of a number that is given: none."""

    def arithmetic(place: Place) -> Arithmetic:
        return Arithmetic(title(place), left(place), (), (), (note,))

    return arithmetic


def _matrix_entry(letter: str) -> Kind:
    def title(place: Place) -> str:
        of_head = place.of_head if place.address.head else ""
        return f"Entry of W_{letter}, row {place.i}, column {place.j}{of_head}"

    return _given(title, lambda place: indexed("W", place.i, place.j, above=letter), WEIGHT_NOTE)


KINDS: Final[dict[str, Kind]] = {
    "X": _given(
        lambda place: f"Input of position {place.i}, coordinate {place.j}",
        lambda place: indexed("x", place.i, place.j),
        INPUT_NOTE,
    ),
    "W_O": _matrix_entry("O"),
    "gamma": _given(
        lambda place: f"LayerNorm's scale γ of coordinate {place.i}",
        lambda place: indexed("γ", place.i),
        INPUT_NOTE,
    ),
    "beta": _given(
        lambda place: f"LayerNorm's offset β of coordinate {place.i}",
        lambda place: indexed("β", place.i),
        INPUT_NOTE,
    ),
    "epsilon": _given(lambda _: "LayerNorm's ε", lambda _: mathml.identifier("ε"), INPUT_NOTE),
    "concat": _concat,
    "output": _output_projection,
    "residual_sum": _residual_sum,
    "mean": _mean,
    "variance": _variance,
    "layer_norm": _layer_norm,
}
"""By the name of the field in `Calculation`."""

HEAD_WEIGHTS: Final[dict[str, Kind]] = {
    f"W_{letter}": _matrix_entry(letter) for letter in ("Q", "K", "V")
}
"""The projections of each head."""
