"""Inside one pass: what each position predicts, and one position's way through a sub-layer."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from markupsafe import Markup

from app.chapters.numbers import short
from app.chapters.translate_tokens import Label, label
from app.translation.protocol import Array, Trace

_ALTERNATIVES: Final = 3


class Choice(NamedTuple):
    """One entry of a next-token distribution."""

    token: Label
    probability: float
    text: str
    width: int
    """Of its bar, in per cent."""
    chosen: bool
    """It is the token that stands in the translation."""


class Position(NamedTuple):
    """What one position reads and predicts."""

    number: int
    reads: Label
    predicts: Label
    probability: str
    rank: int
    """The place of the translation's token in the distribution, from 1."""
    best: list[Choice]


class Strip(NamedTuple):
    """A vector as a picture, and the ends of its axes."""

    svg: Markup
    top: str
    bottom: str
    size: int
    """How many coordinates."""


class Vector(NamedTuple):
    """One position's numbers in one sub-layer."""

    sublayer: str
    title: str
    position: int
    token: Label
    mean: float
    deviation: float
    largest: float
    """The largest size among the coordinates of the residual sum."""
    before: Strip
    after: Strip
    rows: list[tuple[int, str, str, str, str]]
    """Coordinate, Sublayer(x), residual sum, normalised, LayerNorm; filled on demand."""


def positions(trace: Trace) -> list[Position]:
    """Every target position, in order."""
    found = []
    for t, wanted in enumerate(trace.predicted):
        row = trace.log_probs[t]
        probability = float(np.exp(np.float64(row[wanted.id])))
        found.append(
            Position(
                t + 1,
                label(trace.target_tokens[t]),
                label(wanted),
                percent(probability),
                int((row > row[wanted.id]).sum()) + 1,
                [
                    Choice(
                        label(entry.token),
                        entry.probability,
                        percent(entry.probability),
                        round(entry.probability * 100),
                        entry.token.id == wanted.id,
                    )
                    for entry in trace.next_tokens[t]
                ],
            )
        )
    return found


def percent(probability: float) -> str:
    """A probability as a reader takes it in.

    >>> percent(0.1234), percent(0.00001), percent(1.0), percent(0.99999)
    ('12.3%', '<0.1%', '100%', '>99.9%')
    """
    if probability == 1 or probability == 0:
        return f"{probability:.0%}"
    if probability < 0.0005:
        return "<0.1%"
    if probability > 0.9995:
        return ">99.9%"
    return f"{probability:.1%}"


def names(trace: Trace) -> list[tuple[str, str]]:
    """Every sub-layer, in the order of the calculation: for the URL, and in words."""
    return [(_from_one(name), title(name)) for name in trace.sublayers]


def title(name: str) -> str:
    """A sub-layer's name in words.

    >>> title("decoder.2.cross_attention")
    'Decoder layer 3, cross-attention'
    """
    stack, layer, kind = name.split(".")
    return f"{stack.capitalize()} layer {int(layer) + 1}, {kind.replace('_', '-')}"


def vector(trace: Trace, name: str, position: int, *, numbers: bool) -> Vector:
    """One position (from 1) in the sub-layer `name` (layers from 1, as in the URL)."""
    stack, layer, kind = name.split(".")
    sublayer = trace.sublayers[f"{stack}.{int(layer) - 1}.{kind}"]
    tokens = trace.source_tokens if stack == "encoder" else trace.target_tokens
    i = position - 1
    total = sublayer.residual_sum[i].astype(np.float64)
    mean, deviation = float(sublayer.mean[i]), float(sublayer.deviation[i])
    normalised = (total - mean) / deviation if deviation else np.zeros_like(total)
    columns = (sublayer.output[i], total, normalised, sublayer.layer_norm[i])
    return Vector(
        name,
        title(sublayer.name),
        position,
        label(tokens[i]),
        mean,
        deviation,
        float(np.abs(total).max()),
        strip(total, mean, deviation),
        strip(sublayer.layer_norm[i].astype(np.float64), 0.0, 1.0),
        [
            (place, short(a), short(b), short(c), short(d))
            for place, (a, b, c, d) in enumerate(
                zip(*(column.tolist() for column in columns), strict=True), start=1
            )
        ]
        if numbers
        else [],
    )


def strip(values: Array, mean: float, deviation: float) -> Strip:
    """A vector as a strip of bars from zero, with its mean and one deviation to either side."""
    n = len(values)
    top = max(float(np.abs(values).max()), abs(mean) + deviation, 1e-9)
    scale = 50 / top

    def y(value: float) -> str:
        return f"{50 - value * scale:.0f}"

    bars = "".join(f"M{i} 50V{y(value)}" for i, value in enumerate(values.tolist()))
    svg = Markup(
        '<svg class="strip" viewBox="-.5 0 {n} 100" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="band" x="-.5" width="{n}" y="{high}" height="{tall:.1f}"/>'
        '<path class="bars" d="{bars}"/><path class="mean" d="M-1 {mid}H{n}"/></svg>'
    ).format(n=n, high=y(mean + deviation), tall=2 * deviation * scale, bars=bars, mid=y(mean))
    return Strip(svg, short(top), short(-top), n)


def _from_one(name: str) -> str:
    stack, layer, kind = name.split(".")
    return f"{stack}.{int(layer) + 1}.{kind}"
