"""What changed, position by position, between a reference and the state that is shown; and why.

Two calculations are compared bit by bit. The reasons are read off them: what differs between the
two (edited rows, mask, scaling, W_O, γ, β, ε), and whether each difference is among the things that
a position reads. A difference that is not read cannot change a result, and is named as the reason
for sameness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.chapters import numbers
from app.chapters.arithmetic.place import listed
from app.chapters.calculation import Calculation
from app.chapters.changes import (
    STILL,
    Effect,
    PositionChange,
    WhatChanged,
    changed,
    identical,
    position,
    same,
    same_rows,
)
from app.paper.arrays import Floats
from app.paper.errors import ShapeError

__all__ = ["PositionChange", "WhatChanged", "what_changed"]


def what_changed(reference: Calculation, current: Calculation) -> WhatChanged:
    """Compares two calculations of the same worked example, whatever differs between them.

    Raises ShapeError where they are not of the same size.
    """
    if reference.X.shape != current.X.shape or len(reference.heads) != len(current.heads):
        raise ShapeError(
            f"reference: expected a calculation of the shape {current.X.shape} with "
            f"{len(current.heads)} heads, got {reference.X.shape} with {len(reference.heads)}"
        )
    comparison = _Comparison(reference, current)
    return WhatChanged(
        differences=tuple(comparison.differences()),
        positions=tuple(comparison.position(i) for i in range(len(current.X))),
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """Which rows of one head are the same in both calculations, bit by bit."""

    Q: list[bool]
    K: list[bool]
    V: list[bool]
    weights: list[bool]
    output: list[bool]


class _Comparison:
    """Both calculations and what differs between them; positions count from 0 here."""

    def __init__(self, reference: Calculation, current: Calculation) -> None:
        self.reference = reference
        self.current = current
        self.edited = [r for r, alike in enumerate(same_rows(reference.X, current.X)) if not alike]
        self.heads = [
            _Head(
                same_rows(old.Q, new.Q),
                same_rows(old.K, new.K),
                same_rows(old.V, new.V),
                same_rows(old.weights, new.weights),
                same_rows(old.output, new.output),
            )
            for old, new in zip(reference.heads, current.heads, strict=True)
        ]
        self.layer_norm = same_rows(reference.layer_norm, current.layer_norm)
        self.old_allowed: list[list[bool]] = reference.allowed.tolist()
        self.allowed: list[list[bool]] = current.allowed.tolist()
        self.mask_changed = self.old_allowed != self.allowed
        self.scaling_changed = reference.scaled != current.scaled
        self.W_O_changed = not same(reference.W_O.W_O, current.W_O.W_O)
        if self.W_O_changed:
            # As if W_O alone were put back.
            joined = current.concat @ reference.W_O.W_O
            self.joined_the_same = same_rows(joined, current.output)

    def differences(self) -> list[str]:
        """Every difference between the states, a sentence each."""
        old, new = self.reference, self.current
        sentences = [
            f"Row {r + 1} was edited: {_vector(old.X[r])} became {_vector(new.X[r])}."
            for r in self.edited
        ]
        if self.mask_changed:
            sentences.append(f"The mask is {_mask(new)} instead of {_mask(old)}.")
        if self.scaling_changed:
            now = "" if new.scaled else "not "
            sentences.append(f"The scores are {now}divided by the root of d_k.")
        if self.W_O_changed:
            titles = new.W_O.title.lower(), old.W_O.title.lower()
            sentences.append("W_O is {} instead of {}.".format(*titles))
        for sign, before, after in (("γ", old.gamma, new.gamma), ("β", old.beta, new.beta)):
            if not same(before, after):
                sentences.append(f"{sign} is {_vector(after)} instead of {_vector(before)}.")
        if old.epsilon != new.epsilon:
            now, then = numbers.inline(new.epsilon), numbers.inline(old.epsilon)
            sentences.append(f"ε is {now} instead of {then}.")
        return sentences

    def position(self, i: int) -> PositionChange:
        """One position, whole."""
        old, new = self.reference, self.current
        mask = [self.mask_effect(i)] if self.mask_changed else []
        heads = []
        for h, (before, after) in enumerate(zip(old.heads, new.heads, strict=True)):
            name, address = f"Head {h + 1}", f"head{h + 1}.output.{i + 1}"
            effects = self.head_effects(i, [h], mask)
            if self.heads[h].output[i]:
                reached = any(effect.reaches for effect in effects)
                heads.append(identical(name, effects, self.still(i, h) if reached else ""))
            else:
                heads.append(changed(name, before.output[i], after.output[i], address, effects))
        everything = range(len(new.heads))
        effects = self.head_effects(i, everything, mask, own=True) + self.later_effects(i)
        if self.layer_norm[i]:
            layer_norm = identical("LayerNorm", effects, STILL)
        else:
            address = f"layer_norm.{i + 1}"
            rows = old.layer_norm[i], new.layer_norm[i]
            layer_norm = changed("LayerNorm", *rows, address, effects)
        return position(i + 1, tuple(heads), layer_norm)

    def still(self, i: int, h: int) -> str:
        """Why head h of position i gives the same, although something that it reads changed."""
        head, allowed = self.heads[h], self.allowed[i]
        values = [r for r, ok in enumerate(allowed) if ok and not head.V[r]]
        if head.weights[i] and not values:
            return "What it reads changed, but no weight and no value did."
        weights = self.current.heads[h].weights[i], self.reference.heads[h].weights[i]
        if head.weights[i] and all(row[r] == 0 for row in weights for r in values):
            return "What it reads changed, but only where its weight is exactly 0."
        return STILL

    def head_effects(
        self, i: int, heads: Sequence[int], mask: list[Effect], own: bool = False
    ) -> list[Effect]:
        """How the differences before W_O meet some heads of position i; `mask` is the mask's.

        With `own`, the residual connection is looked at too: a position's own row always reaches
        it.
        """
        effects = self.row_effects(i, [self.heads[h] for h in heads], own) if self.edited else []
        effects += mask
        if self.scaling_changed:
            effects.append(self.scaling_effect(i, heads))
        return effects

    def row_effects(self, i: int, heads: Sequence[_Head], own: bool) -> list[Effect]:
        """The edited rows, grouped by what they are to position i."""
        allowed, before = self.allowed[i], self.old_allowed[i]
        only_one = sum(allowed) == 1
        forbidden: list[int] = []
        read: list[int] = []
        unread: list[int] = []
        effects = []
        for r in self.edited:
            values = not all(head.V[r] for head in heads)
            keys = not all(head.K[r] for head in heads)
            queries = r == i and not all(head.Q[r] for head in heads)
            used = allowed[r] and (values or (keys and not only_one))
            used = used or (queries and sum(allowed) > 1)
            if r == i and (own or used):
                effects.append(Effect(True, "The edited row is its own input."))
            elif r == i:
                effects.append(Effect(False, _own_row(queries or keys or values, only_one)))
            elif not allowed[r]:
                forbidden.append(r)
            elif not used:
                unread.append(r)
            elif before[r]:  # a key that the mask has just let in is told with the mask
                read.append(r)
        if read:
            were = "was" if len(read) == 1 else "were"
            effects.append(
                Effect(True, f"It may attend to {_positions(read)}, which {were} edited.")
            )
        if unread:
            effects.append(Effect(False, _unread_rows(unread, only_one)))
        if forbidden:
            effects.append(Effect(False, self.forbidden_rows(i, forbidden)))
        return effects

    def forbidden_rows(self, i: int, rows: list[int]) -> str:
        """Why edited rows that position i may not attend to leave it alone."""
        keys = [r for r, ok in enumerate(self.allowed[i]) if ok]
        if not keys:
            return "It may attend to nothing."
        if i not in self.edited and keys == [i]:
            return "It may attend only to itself, and its own row is unchanged."
        edited = _these(
            rows, "The edited row {} is a forbidden key", "The edited rows {} are forbidden keys"
        )
        return f"{edited}." if i in self.edited else f"{edited}, and its own query is unchanged."

    def mask_effect(self, i: int) -> Effect:
        """What the change of the mask means to position i."""
        both = list(zip(self.old_allowed[i], self.allowed[i], strict=True))
        gained = [j for j, (old, new) in enumerate(both) if new and not old]
        lost = [j for j, (old, new) in enumerate(both) if old and not new]
        clauses = []
        if gained:
            edited = [j for j in gained if j in self.edited]
            aside = ""
            if edited:
                were = "was" if len(edited) == 1 else "were"
                whose = "which" if edited == gained else f"of which {_positions(edited)}"
                aside = f", {whose} {were} edited"
            clauses.append(f"may now attend to {_positions(gained)} as well{aside}")
        if lost:
            clauses.append(f"may no longer attend to {_positions(lost)}")
        if clauses:
            return Effect(True, f"It {' and '.join(clauses)}.")
        return Effect(False, "The mask changed, but it may attend to the same keys as before.")

    def scaling_effect(self, i: int, heads: Sequence[int]) -> Effect:
        """What switching the scaling means to position i."""
        allowed = self.allowed[i]
        if sum(allowed) == 0:
            return Effect(False, "It may attend to nothing, so there is no score to divide.")
        if sum(allowed) == 1:
            return Effect(
                False,
                "It attends to a single key, whose weight is 1 whether or not scores are divided.",
            )
        rows = (self.current.heads[h].scores[i].tolist() for h in heads)
        if all(
            len({score for score, ok in zip(row, allowed, strict=True) if ok}) == 1 for row in rows
        ):
            return Effect(False, "Its scores are all equal, so dividing them changes no weight.")
        now = "now" if self.current.scaled else "no longer"
        return Effect(True, f"Its scores are {now} divided by the root of d_k.")

    def later_effects(self, i: int) -> list[Effect]:
        """What comes after the heads: W_O, γ, β and ε, each put back alone to see whether it
        matters.
        """
        old, new = self.reference, self.current
        effects = []
        if self.W_O_changed:
            effects.append(
                Effect(False, "W_O changed, but makes the same of what the heads give here.")
                if self.joined_the_same[i]
                else Effect(True, "W_O joins the heads differently.")
            )
        deviations = new.residual_sum[i] - new.mean[i]
        tries: list[tuple[str, bool, Callable[[], Floats]]] = [
            (
                "γ",
                not same(old.gamma, new.gamma),
                lambda: old.gamma * new.normalized[i] + new.beta,
            ),
            ("β", not same(old.beta, new.beta), lambda: new.gamma * new.normalized[i] + old.beta),
            (
                "ε",
                old.epsilon != new.epsilon,
                lambda: (
                    new.gamma * (deviations / math.sqrt(float(new.variance[i]) + old.epsilon))
                    + new.beta
                ),
            ),
        ]
        reached: list[str] = []
        unreached: list[str] = []
        for sign, differs, put_back in tries:
            if differs:
                (unreached if same(put_back(), new.layer_norm[i]) else reached).append(sign)
        if reached:
            effects.append(Effect(True, f"LayerNorm has another {listed(reached)}."))
        if unreached:
            signs = listed(unreached)
            effects.append(Effect(False, f"{signs} changed, but not what LayerNorm gives here."))
        return effects


def _own_row(changed: bool, only_one: bool) -> str:
    if not changed:
        return "Its own row was edited, but in no coordinate that this head reads."
    if only_one:
        return (
            "Its own row was edited, but with a single allowed key the weight is 1 whatever "
            "the score, and the value is unchanged."
        )
    return "It may attend to nothing."


def _unread_rows(rows: list[int], only_one: bool) -> str:
    which = _these(rows, "Row {} was edited", "Rows {} were edited")
    if only_one:
        return f"{which}, but not the value that alone is passed on."
    return f"{which}, but in no coordinate that makes its keys or values."


def _these(rows: list[int], one: str, more: str) -> str:
    return (one if len(rows) == 1 else more).format(listed([str(r + 1) for r in rows]))


def _positions(rows: list[int]) -> str:
    return _these(rows, "position {}", "positions {}")


def _vector(row: Floats) -> str:
    return f"({', '.join(numbers.inline(float(x)) for x in row)})"


def _mask(calculation: Calculation) -> str:
    return {"causal": "causal", "all": "all positions"}.get(calculation.mask, "another one")
