"""The attention rows as a picture: for each head, a bar a key, a row a position.

The same drawing serves the page, where style sheets colour it, and the download, which carries its
colours and names its font.
"""

from __future__ import annotations

from typing import Final

from markupsafe import Markup, escape

from app.chapters.calculation import Calculation
from app.chapters.numbers import short
from app.paper.attention import AttentionSteps

_BAR: Final = 64.0  # width of one key's place, in SVG units (CSS pixels at normal size)
_GAP: Final = 6.0
_ROW: Final = 50.0  # height of one position's strip
_TALL: Final = 29.0  # height of a weight of 1
_LEFT: Final = 22.0  # room for the position's number
_TOP: Final = 18.0  # room for the keys' names

STANDALONE_STYLE: Final = """
text { font: 12px "DejaVu Sans", system-ui, sans-serif; fill: #1d1d1f; }
.soft { fill: #5b5b63; }
.title { font-weight: 600; font-size: 13px; }
.weight { fill: #5b3fd6; }
.place { fill: #f5f4f0; }
.blocked { fill: url(#hatch); }
.line { fill: #d3d0c8; }
.selected { fill: #f1eefc; }
.halo { stroke: #ffffff; stroke-width: 4px; paint-order: stroke; stroke-linejoin: round; }
"""


def size(n: int) -> tuple[float, float]:
    """Width and height of one head's drawing with n positions and keys."""
    return _LEFT + n * (_BAR + _GAP), _TOP + n * _ROW + 4


def head_rows(steps: AttentionSteps, number: int, selected: int, prefix: str = "") -> Markup:
    """One head's attention rows as an `svg` element with a title and a description.

    `selected` is the position, from 1, whose strip is tinted; 0 for none. `prefix` goes before ids.
    """
    n = steps.weights.shape[0]
    width, height = size(n)
    name = escape(f"{prefix}rows-{number}")
    return Markup(
        f'<svg data-part id="{name}" class="rows" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-labelledby="{name}-title">'
        f'<title id="{name}-title">{describe(steps, number)}</title>{_hatch(f"{name}-hatch")}'
        f"{_body(steps, selected, f'{name}-hatch')}</svg>"
    )


def describe(steps: AttentionSteps, number: int) -> str:
    """The picture in words, for those who do not see it."""
    rows = []
    for i, (weights, allowed) in enumerate(
        zip(steps.weights.tolist(), steps.mask.tolist(), strict=True), start=1
    ):
        shares = ", ".join(
            f"{short(weight)} to key {j}" if open_ else f"key {j} blocked"
            for j, (weight, open_) in enumerate(zip(weights, allowed, strict=True), start=1)
        )
        rows.append(f"Position {i}: {shares}.")
    return f"Attention of head {number}. {' '.join(rows)}"


def whole(calculation: Calculation, selected: int = 0) -> str:
    """Every head side by side, as a file that stands alone."""
    n = calculation.X.shape[0]
    width, height = size(n)
    step = width + 36
    total_width, total_height = step * len(calculation.heads) - 4, height + 62
    parts = []
    for index, steps in enumerate(calculation.heads):
        parts.append(
            f'<g transform="translate({16 + index * step:g} 44)">'
            f'<text class="title" x="0" y="-10">Head {index + 1}</text>'
            f"{_body(steps, selected, 'hatch')}</g>"
        )
    rule = "causal mask" if calculation.mask == "causal" else "all positions allowed"
    scaled = "scores divided by √d_k" if calculation.scaled else "scores not divided"
    words = " ".join(describe(steps, i) for i, steps in enumerate(calculation.heads, start=1))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width:g} {total_height:g}" '
        f'width="{total_width:g}" height="{total_height:g}" role="img">'
        f"<title>Attention weights, {rule}, {scaled}</title><desc>{escape(words)}</desc>"
        f"<style>{STANDALONE_STYLE}</style>{_hatch('hatch')}"
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}'
        f'<text class="soft" x="16" y="{total_height - 10:g}">Attention weights, {rule}, {scaled}'
        "</text></svg>\n"
    )


def _body(steps: AttentionSteps, selected: int, hatch: str) -> str:
    weights, allowed = steps.weights.tolist(), steps.mask.tolist()
    n = len(weights)
    out = []
    for j in range(n):
        x = _x(j) + _BAR / 2
        out.append(f'<text class="soft" x="{x:g}" y="12" text-anchor="middle">key {j + 1}</text>')
    for i in range(n):
        base = _TOP + (i + 1) * _ROW - 4
        chosen = " selected" if i + 1 == selected else ""
        out.append(f'<text class="soft" x="4" y="{base - 2:g}">{i + 1}</text>')
        for j in range(n):
            x = _x(j)
            place = f'x="{x:g}" y="{base - _TALL - 16:g}" width="{_BAR:g}" height="{_TALL + 16:g}"'
            middle = f'x="{x + _BAR / 2:g}" text-anchor="middle"'
            if not allowed[i][j]:
                out.append(f'<rect class="blocked" {place} rx="4" fill="url(#{hatch})"/>')
                out.append(f'<text class="soft halo" {middle} y="{base - 19:g}">blocked</text>')
                continue
            tall = weights[i][j] * _TALL
            out.append(f'<rect class="place{chosen}" {place} rx="4"/>')
            out.append(
                f'<rect class="weight" x="{x:g}" y="{base - tall:.3f}" width="{_BAR:g}" '
                f'height="{tall:.3f}" rx="2"/>'
            )
            out.append(f'<text {middle} y="{base - tall - 3:.3f}">{short(weights[i][j])}</text>')
    return "".join(out)


def _x(j: int) -> float:
    return _LEFT + j * (_BAR + _GAP)


def _hatch(name: str) -> str:
    return (
        f'<defs><pattern id="{name}" width="6.5" height="6.5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="line" width="1.2" height="6.5"/>'
        "</pattern></defs>"
    )
