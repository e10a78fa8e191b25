"""The calculation of one position as a walk: what is done, why, and the formula with its numbers.

The walk follows the selected position through head 1, meets the other heads where they are joined,
and ends at LayerNorm. Its sentences speak of the state that is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from app.chapters.arithmetic import Explanation, explain
from app.chapters.calculation import Calculation
from app.chapters.numbers import inline, short

MOST_FORMULAS: Final = 4


class Step(NamedTuple):
    """One step of the walk."""

    number: int
    title: str
    section: str
    prose: tuple[str, ...]
    formulas: tuple[Explanation, ...]


class _Walk:
    """The sentences and formulas of every step for one position."""

    def __init__(self, now: Calculation, position: int) -> None:
        self.now = now
        self.i = position
        self.head = now.heads[0]
        self.keys = [j for j in range(1, len(now.X) + 1) if now.allowed[position - 1, j - 1]]
        self.forbidden = [j for j in range(1, len(now.X) + 1) if j not in self.keys]

    def inputs(self) -> list[str]:
        n, d = self.now.X.shape
        return [
            f"Attention starts from {n} rows of {d} numbers, one row a position. In a trained "
            "model they would come from embeddings or from the layer below; here they are given.",
            f"We follow position {self.i}: its row is {_vector(self.now.X[self.i - 1].tolist())}.",
        ]

    def project(self) -> list[str]:
        return [
            "Three matrices turn every row into three shorter ones: a query, which says what the "
            "position looks for, a key, by which it can be found, and a value, which is what it "
            "hands over.",
            "The matrices of this example only pick coordinates, so that you can check them by "
            "eye. A trained model has learned full ones.",
        ]

    def compare(self) -> list[str]:
        scores = [self.head.scores[self.i - 1, j - 1] for j in range(1, len(self.now.X) + 1)]
        return [
            f"The query of position {self.i} meets every key. Multiply coordinate by coordinate "
            "and add up: that is the score, large where the two point the same way and are long.",
            f"Here the scores are {_list(scores)}.",
        ]

    def scale(self) -> list[str]:
        d_k = self.head.Q.shape[1]
        if self.now.scaled:
            return [
                f"Each score is divided by √{d_k}, because queries and keys have {d_k} coordinates "
                "and a sum of more products spreads more widely.",
                "Dividing brings the scores closer together, so softmax will share more evenly. "
                "Switch it off on the bench to see the difference.",
            ]
        return [
            f"Scaling is switched off: the scores go on as they are. The paper divides by √{d_k}, "
            "which would bring them closer together.",
        ]

    def mask(self) -> list[str]:
        if self.forbidden:
            keys = "key" if len(self.forbidden) == 1 else "keys"
            return [
                f"Position {self.i} may not look ahead: {keys} {_names(self.forbidden)} "
                f"{'is' if len(self.forbidden) == 1 else 'are'} struck out. A forbidden score is "
                "not zero but absent, written −∞, and whatever stands there can no longer matter.",
            ]
        if self.now.mask == "all":
            return [
                "With all positions allowed nothing is struck out. That is how an encoder reads "
                "its source; a decoder that did so would see the words it is about to produce.",
            ]
        return [
            f"The causal mask strikes out the future. Position {self.i} is the last one, so "
            "nothing lies ahead of it and all its scores stay.",
        ]

    def shift(self) -> list[str]:
        largest = float(self.head.row_max[self.i - 1])
        return [
            f"Before the exponential the row’s largest score, {short(largest)}, is subtracted from "
            "all of them. The largest becomes 0, and e to a huge number, which no computer can "
            "hold, is never asked for.",
            "This changes no weight: e to a difference is a quotient, and the same factor above "
            "and below cancels.",
        ]

    def share(self) -> list[str]:
        return [
            "Raise e to each score, then divide by the sum of the row. The results are positive "
            "and add up to 1: shares.",
            "A share describes this mixture. It does not say how much a position matters to what a "
            "whole model finally predicts.",
        ]

    def mix(self) -> list[str]:
        weights = self.head.weights[self.i - 1].tolist()
        heaviest = max(self.keys, key=lambda j: weights[j - 1], default=0)
        sentences = [
            "The shares now weigh the values, coordinate by coordinate, and the sum is what the "
            "head returns."
        ]
        if heaviest and not self.head.V[heaviest - 1].any():
            sentences.append(
                f"Key {heaviest} gets the largest share, {short(weights[heaviest - 1])}, and yet "
                "adds nothing: its value is all zeros. A weight is only half of the story."
            )
        return sentences

    def join(self) -> list[str]:
        h = len(self.now.heads)
        words = {
            "identity": "Here it is the identity and passes every coordinate through.",
            "swapped": "Here it swaps the heads: the same numbers, in other places.",
            "averaged": "Here it averages the heads: two different answers become one, twice.",
        }
        return [
            f"The {h} heads did the same with their own queries, keys and values. Their outputs "
            "are laid side by side, so that what each found keeps coordinates of its own.",
            "Then one more matrix, Wᴼ, may mix the coordinates of a position. "
            + words.get(self.now.W_O.name, self.now.W_O.note),
        ]

    def normalise(self) -> list[str]:
        return [
            "The row that came in is added to what attention found: a direct way around the "
            "sublayer.",
            "LayerNorm then moves the coordinates of this one position to mean 0 and, but for ε, "
            "deviation 1; γ and β may stretch and shift the result. Other positions play no part.",
        ]


_STEPS: Final[tuple[tuple[str, str, Callable[[_Walk], list[str]], tuple[str, ...]], ...]] = (
    ("The rows that come in", "§3.2", _Walk.inputs, ("X.{i}.*",)),
    ("Project", "§3.2.2", _Walk.project, ("head1.Q.{i}.*", "head1.K.{i}.1", "head1.V.{i}.1")),
    ("Compare", "§3.2.1", _Walk.compare, ("head1.scores.{i}.*",)),
    ("Scale", "§3.2.1", _Walk.scale, ("head1.scaled_scores.{i}.*",)),
    ("Mask", "§3.2.3", _Walk.mask, ("head1.masked_scores.{i}.*",)),
    ("Subtract the largest", "§3.2.1", _Walk.shift, ("head1.row_max.{i}", "head1.shifted.{i}.*")),
    ("Share", "§3.2.1", _Walk.share, ("head1.denominator.{i}", "head1.weights.{i}.*")),
    ("Mix", "§3.2.1", _Walk.mix, ("head1.output.{i}.*",)),
    ("Join the heads", "§3.2.2", _Walk.join, ("concat.{i}.*", "output.{i}.1")),
    (
        "Add and normalise",
        "§3.1",
        _Walk.normalise,
        ("residual_sum.{i}.1", "mean.{i}", "variance.{i}", "layer_norm.{i}.1"),
    ),
)

TITLES: Final = tuple(title for title, *_ in _STEPS)


def step(now: Calculation, position: int, number: int) -> Step:
    """Step `number` (from 1) of the walk of `position` (from 1)."""
    title, section, prose, patterns = _STEPS[number - 1]
    room = MOST_FORMULAS - len(patterns) + 1  # for a pattern's own, so that each has its formula
    addresses = [
        address
        for pattern in patterns
        for address in _addresses(now, pattern.format(i=position))[:room]
    ]
    return Step(
        number,
        title,
        section,
        tuple(prose(_Walk(now, position))),
        tuple(explain(now, address) for address in addresses),
    )


def _addresses(now: Calculation, pattern: str) -> list[str]:
    """The addresses that a pattern with one star stands for."""
    if not pattern.endswith("*"):
        return [pattern]
    first = pattern.split(".")
    holder = now.heads[0] if first[0].startswith("head") else now
    matrix = getattr(holder, first[-3])
    return [pattern[:-1] + str(place) for place in range(1, matrix.shape[1] + 1)]


def _list(values: list[float]) -> str:
    return _names([short(float(value)) for value in values])


def _names(items: list[str] | list[int]) -> str:
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _vector(row: list[float]) -> str:
    return f"({', '.join(map(inline, row))})"
