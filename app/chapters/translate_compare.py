"""Before and after, position by position: what stayed the same to the last bit, and what moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from app.chapters.translate_answers import Comparison
from app.chapters.translate_tokens import Label, label
from app.translation.protocol import Array, Trace


class Change(NamedTuple):
    """One target position."""

    position: int
    reads: Label
    reads_now: Label
    edited_input: bool
    identical: bool
    predicts: Label
    probability: float
    predicts_now: Label
    probability_now: float
    largest: float
    """The largest change of any token's probability."""
    divergence: float
    """Kullback–Leibler, of the new distribution from the old one, in nats."""
    layer_norm: float
    """The largest change of any coordinate of the decoder's output."""


class Memory(NamedTuple):
    """What became of the encoder's output."""

    identical: int
    positions: int
    largest: float


class Verdict(NamedTuple):
    """A run of positions that fared alike."""

    identical: bool
    headline: str
    reason: str


class WhatChanged(NamedTuple):
    """Everything that the comparison shows."""

    changes: list[Change]
    memory: Memory
    verdicts: list[Verdict]
    log_prob: float
    log_prob_now: float


def what_changed(comparison: Comparison, edit: int) -> WhatChanged:
    """Compare the two passes; `edit` is the position of the replaced token, from 1, or 0."""
    before, after = comparison.before, comparison.after
    same = identical_positions(before, after)
    output = list(before.sublayers)[-1]
    old, new = before.sublayers[output].layer_norm, after.sublayers[output].layer_norm
    changes = []
    for t, identical in enumerate(same):
        p, q = before.log_probs[t].astype(np.float64), after.log_probs[t].astype(np.float64)
        best, best_now = before.next_tokens[t][0], after.next_tokens[t][0]
        changes.append(
            Change(
                t + 1,
                label(before.target_tokens[t]),
                label(after.target_tokens[t]),
                before.target_tokens[t].id != after.target_tokens[t].id,
                identical,
                label(best.token),
                best.probability,
                label(best_now.token),
                best_now.probability,
                float(np.abs(np.exp(q) - np.exp(p)).max()),
                max(0.0, float((np.exp(p) * (p - q)).sum())),
                float(np.abs(new[t] - old[t]).max()),
            )
        )
    return WhatChanged(
        changes,
        _memory(before, after),
        _verdicts(same, before, after, edit),
        before.log_prob,
        _log_prob(after, before),
    )


def identical_positions(before: Trace, after: Trace) -> list[bool]:
    """For each target position: whether every sub-layer of the decoder and the distribution are the
    same, bit for bit.
    """
    n = len(before.target_tokens)
    same = _rows_alike(before.log_probs, after.log_probs)
    for name, sublayer in before.sublayers.items():
        if name.startswith("decoder."):
            other = after.sublayers[name]
            for field in ("output", "residual_sum", "layer_norm"):
                same &= _rows_alike(getattr(sublayer, field), getattr(other, field))
    return [bool(same[t]) for t in range(n)]


def _rows_alike(one: Array, other: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    bits = np.ascontiguousarray(one).view(np.uint32) == np.ascontiguousarray(other).view(np.uint32)
    rows: np.ndarray[tuple[int], np.dtype[np.bool_]] = bits.all(axis=-1)
    return rows


def _memory(before: Trace, after: Trace) -> Memory:
    name = [name for name in before.sublayers if name.startswith("encoder.")][-1]
    old, new = before.sublayers[name].layer_norm, after.sublayers[name].layer_norm
    alike = _rows_alike(old, new)
    return Memory(int(alike.sum()), len(alike), float(np.abs(new - old).max()))


def _log_prob(trace: Trace, of: Trace) -> float:
    """The log-probability that one pass gives to the target of another of the same length."""
    ids = [token.id for token in of.predicted]
    return float(trace.log_probs[np.arange(len(ids)), ids].astype(np.float64).sum())


def _verdicts(same: list[bool], before: Trace, after: Trace, edit: int) -> list[Verdict]:
    found = []
    start = 0
    for end in range(1, len(same) + 1):
        if end == len(same) or same[end] != same[start]:
            found.append(
                Verdict(
                    same[start],
                    f"{_span(start + 1, end)}: "
                    + ("identical to the last bit" if same[start] else "changed"),
                    _reason(start, end, same[start], before, after, edit),
                )
            )
            start = end
    return found


def _span(first: int, last: int) -> str:
    return f"Position {first}" if first == last else f"Positions {first}–{last}"


def _reason(start: int, end: int, identical: bool, before: Trace, after: Trace, edit: int) -> str:
    """Why positions start … end (from 0, end excluded) fared so, read off what the passes had."""
    one = end - start == 1
    they, read = ("It", "reads") if one else ("They", "read")
    changed = [
        t
        for t, (old, new) in enumerate(zip(before.target_tokens, after.target_tokens, strict=True))
        if old.id != new.id
    ]
    if edit:
        if not changed:
            return (
                "The edited token is the last: it is predicted, and no position reads it."
                if identical
                else "Nothing that is read was edited."
            )
        first = changed[0]
        if identical and after.interventions.causal:
            return (
                f"{they} {read} only what was there before the edited token enters, at position "
                f"{first + 1}; the causal mask keeps later positions out."
            )
        if identical:
            return f"What {they.lower()} attended to carries no trace of the edit."
        if after.interventions.causal:
            return (
                f"The edited token is an input of position {first + 1}; "
                "every later position may attend to it."
            )
        if start < first:
            return "Without the causal mask even positions before the edited token attend to it."
        return "The edited token is an input here, or may be attended to."
    if identical:
        return "What was changed does not reach this far."
    reasons = []
    how = after.interventions
    if not how.causal:
        reasons.append("positions now attend to what follows them")
    if not how.scaled:
        reasons.append(Markup("scores are no longer divided by √<i>d</i><sub>k</sub>"))
    if not how.positions:
        reasons.append("no position has a sinusoid any more")
    if how.silenced:
        reasons.append(
            "one head is silent"
            if len(how.silenced) == 1
            else f"{len(how.silenced)} heads are silent"
        )
    text = Markup(", and ").join(reasons)
    return text[:1].upper() + text[1:] + "."
