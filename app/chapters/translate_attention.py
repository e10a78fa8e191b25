"""Attention weights: every head as a small picture, one of them as a table.

A picture's cells are collected into one path a shade, so that a page of many heads stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from app.chapters.numbers import short
from app.chapters.translate_state import KINDS, Head
from app.chapters.translate_tokens import Label, label
from app.translation.protocol import Array, AttentionKind, Interventions, Trace

SHADES: Final = 10
HEAT_STEPS: Final = 20  # those of the tables' style sheet

TITLES: Final = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}
EXPLANATIONS: Final = {
    "encoder": "Source positions over source positions, both ways.",
    "decoder": "Target positions over what was read so far.",
    "cross": "Target positions over source positions.",
}


class Picture(NamedTuple):
    """One head as a small multiple."""

    head: Head
    svg: Markup
    says: str
    silenced: bool
    open: bool


class Layer(NamedTuple):
    """The heads of one layer."""

    number: int
    heads: list[Picture]


class Group(NamedTuple):
    """All heads of one kind of attention."""

    kind: AttentionKind
    title: str
    explanation: str
    layers: list[Layer]


class Cell(NamedTuple):
    """One weight in the table."""

    text: str
    css: str


class Row(NamedTuple):
    """One query's weights."""

    position: int
    query: Label
    cells: list[Cell]
    total: str
    selected: bool


class Table(NamedTuple):
    """One head's weights as a table."""

    head: Head
    title: str
    queries: str
    keys: str
    columns: list[Label]
    rows: list[Row]
    blocked: bool


def ends(trace: Trace, kind: AttentionKind) -> tuple[list[Label], list[Label]]:
    """The labels of an attention's queries and keys."""
    source = [label(token) for token in trace.source_tokens]
    target = [label(token) for token in trace.target_tokens]
    return (source if kind == "encoder" else target), (target if kind == "decoder" else source)


def groups(trace: Trace, opened: Head | None) -> list[Group]:
    """Every head of the model, by kind and layer."""
    silenced = trace.interventions.silenced
    found = []
    for kind in KINDS:
        queries, keys = ends(trace, kind)
        layers = []
        for layer, heads in enumerate(trace.attention(kind), start=1):
            pictures = []
            for number, weights in enumerate(heads, start=1):
                head = Head(kind, layer, number)
                quiet = head.index in silenced
                pictures.append(
                    Picture(
                        head,
                        picture(weights, causal=_causal(kind, trace.interventions)),
                        _says(head, weights, queries, keys, quiet),
                        quiet,
                        head == opened,
                    )
                )
            layers.append(Layer(layer, pictures))
        words = EXPLANATIONS[kind]
        if kind == "decoder" and not trace.interventions.causal:
            words = "Target positions over all of them, the future included."
        found.append(Group(kind, TITLES[kind], words, layers))
    return found


def table(trace: Trace, head: Head, selected: int) -> Table:
    """One head's weights; `selected` is the position of the query to emphasise, from 1."""
    kind, layer, number = head.index
    weights = trace.attention(kind)[layer, number]
    queries, keys = ends(trace, kind)
    causal = _causal(kind, trace.interventions)
    rows = [
        Row(
            place,
            query,
            [
                Cell("blocked", "blocked")
                if causal and column >= place
                else Cell(_weight(weight), f"heat-{round(weight * HEAT_STEPS)}")
                for column, weight in enumerate(row)
            ],
            f"{sum(row):.4f}",
            place == selected,
        )
        for place, (query, row) in enumerate(zip(queries, weights.tolist(), strict=True), start=1)
    ]
    return Table(
        head,
        f"{TITLES[kind]}, layer {head.layer}, head {head.number}",
        "source" if kind == "encoder" else "target",
        "target" if kind == "decoder" else "source",
        keys,
        rows,
        causal,
    )


def picture(weights: Array, *, causal: bool = False) -> Markup:
    """The shades of one head, a unit square a weight: rows are queries, columns are keys."""
    return Markup(
        '<svg viewBox="0 0 {1} {0}" preserveAspectRatio="none" aria-hidden="true">{2}</svg>'
    ).format(*weights.shape, shades(weights, causal=causal))


def shades(weights: Array, *, causal: bool = False) -> Markup:
    """The cells of one head as paths, one a shade; what is next to nothing is left blank.

    >>> str(shades(np.array([[0.5, 0.5], [0.0, 1.0]])))
    '<path class="w5" d="M0 0h2v1h-2z"/><path class="w10" d="M1 1h1v1h-1z"/>'
    """
    steps = np.rint(weights * SHADES).astype(int)
    out = []
    if causal:
        n = weights.shape[0]
        stairs = "".join(f"H{i + 1}V{i + 1}" for i in range(n))
        out.append(f'<path class="future" d="M0 0{stairs}H{n}V0z"/>')
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(steps.tolist()):
        x = 0
        for step, alike in groupby(row):
            width = len(list(alike))
            paths.setdefault(step, []).append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    for step in range(1, SHADES + 1):
        if step in paths:
            out.append(f'<path class="w{step}" d="{"".join(paths[step])}"/>')
    return Markup("".join(out))


def strongest(weights: Array, count: int = 3) -> list[tuple[int, int, float]]:
    """The largest weights of a head: query, key (from 0) and weight."""
    order = np.argsort(weights, axis=None)[::-1][:count]
    places = zip(*np.unravel_index(order, weights.shape), strict=True)
    return [(int(i), int(j), float(weights[i, j])) for i, j in places]


def _says(
    head: Head, weights: Array, queries: Sequence[Label], keys: Sequence[Label], quiet: bool
) -> str:
    i, j, weight = strongest(weights, 1)[0]
    words = f"{TITLES[head.kind]}, layer {head.layer}, head {head.number}"
    if quiet:
        words += ", silenced"
    return f"{words}. Largest weight: {short(weight)} from {queries[i].says} to {keys[j].says}"


def _causal(kind: AttentionKind, interventions: Interventions) -> bool:
    return kind == "decoder" and interventions.causal


def _weight(value: float) -> str:
    """Three decimals; a weight too small for them says so."""
    return "<0.001" if 0 < value < 0.0005 else f"{value:.3f}"


# A file that stands alone

_STYLE: Final = (
    'text{font:11px "DejaVu Sans",system-ui,sans-serif;fill:#1d1d1f}'
    ".t{font-weight:600;font-size:13px}.soft{fill:#5b5b63}"
    ".frame{fill:#f5f4f0}.future{fill:#e9e6df}"
    + "".join(f".w{s}{{fill:#5b3fd6;fill-opacity:{s / SHADES:g}}}" for s in range(1, SHADES + 1))
)


def figure(trace: Trace) -> str:
    """Every head as one SVG file, with the tokens in its description."""
    side, gap, top = 84, 12, 86
    widest = max(trace.attention(kind).shape[1] for kind in KINDS)
    block = widest * (side + gap) + 24
    height = top + max(trace.attention(k).shape[0] for k in KINDS) * (side + 28) + 16
    parts = []
    for column, kind in enumerate(KINDS):
        left = 20 + column * block
        parts.append(f'<text class="t" x="{left}" y="58">{TITLES[kind]}</text>')
        for layer, heads in enumerate(trace.attention(kind)):
            for number, weights in enumerate(heads):
                x, y = left + number * (side + gap), top + layer * (side + 28)
                rows, columns = weights.shape
                parts.append(
                    f'<text class="soft" x="{x}" y="{y - 5}">{layer + 1}.{number + 1}</text>'
                    f'<svg x="{x}" y="{y}" width="{side}" height="{side}" '
                    f'viewBox="0 0 {columns} {rows}" preserveAspectRatio="none">'
                    f'<rect class="frame" width="{columns}" height="{rows}"/>'
                    f"{shades(weights, causal=_causal(kind, trace.interventions))}</svg>"
                )
    source = " ".join(label(token).text for token in trace.source_tokens)
    target = " ".join(label(token).text for token in trace.target_tokens)
    title = f"Attention weights of {trace.model}: rows are queries, columns are keys"
    words = f"Source: {source}. The decoder read: {target}. Weights of the model {trace.digest}."
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * block + 20} {height}" '
        f'width="{3 * block + 20}" height="{height}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(_xml(words))}</desc><style>{_STYLE}</style>"
        '<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text class="soft" x="20" y="26">{escape(title)}; layer.head above each</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _xml(text: str) -> str:
    """Without the characters that XML forbids."""
    return "".join(c for c in text if c in "\t\n" or (c >= " " and c not in "\ufffe\uffff"))
