"""One input moved along a line: which positions notice, and how the shares of a row follow.

Every point of the two charts is a calculation of its own. The drawing exists twice: as SVG,
complete without scripts, and as a description that Plotly draws, to be read point by point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from app.chapters.calculation import Calculation
from app.chapters.numbers import inline, short
from app.chapters.three_positions_state import Parameters
from app.chapters.worked_example import LARGEST

POINTS: Final = 41
SPAN: Final = 4.0
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SUBSCRIPTS: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SVG_DASHES: Final = ("", "7 4", "2 4", "7 4 2 4", "11 4", "11 4 2 4")


class Line(NamedTuple):
    """One curve."""

    name: str
    kind: str
    """Its colour: same, changed or weight."""
    dash: int
    values: tuple[float, ...]


class Chart(NamedTuple):
    """One pair of axes."""

    title: str
    y: str
    lines: tuple[Line, ...]


class Sweep(NamedTuple):
    """Both charts of a state."""

    x: tuple[float, ...]
    here: float
    """Where the state itself is."""
    name: Markup
    """What moves, in HTML: `x<sub>3,1</sub>`."""
    charts: tuple[Chart, Chart]


def sweep(
    state: Parameters, now: Calculation, calculate: Callable[[Parameters], Calculation]
) -> Sweep:
    """Moves the first coordinate of the last position and calculates the state at each place."""
    n = len(state.x)
    here = state.x[-1][0]
    low = max(-LARGEST, min(here - SPAN, -SPAN) if abs(here) <= 2 * SPAN else here - SPAN)
    high = min(LARGEST, max(here + SPAN, SPAN) if abs(here) <= 2 * SPAN else here + SPAN)
    x = sorted({*np.linspace(low, high, POINTS).round(6).tolist(), here})
    changes: list[list[float]] = [[] for _ in range(n)]
    allowed = [j for j in range(n) if now.allowed[state.position - 1, j]]
    weights: list[list[float]] = [[] for _ in allowed]
    for value in x:
        moved = (*state.x[:-1], (value, *state.x[-1][1:]))
        there = calculate(replace(state, x=moved))
        for i, largest in enumerate(np.abs(there.concat - now.concat).max(axis=1).tolist()):
            changes[i].append(largest)
        row = there.heads[0].weights[state.position - 1].tolist()
        for place, j in enumerate(allowed):
            weights[place].append(row[j])
    notices = Chart(
        "Who notices",
        "largest change of a head’s output",
        tuple(
            Line(f"position {i + 1}", "changed" if any(line) else "same", i, tuple(line))
            for i, line in enumerate(changes)
        ),
    )
    shares = Chart(
        f"Shares of position {state.position}, head 1",
        "weight",
        tuple(
            Line(f"key {j + 1}", "weight", j, tuple(line))
            for j, line in zip(allowed, weights, strict=True)
        ),
    )
    return Sweep(tuple(x), here, Markup(f"x<sub>{n},1</sub>"), (notices, shares))


def figure(found: Sweep) -> str:
    """The description for Plotly, as JSON; colours are left to the page, which knows its theme."""
    import plotly.graph_objects as go  # here: it takes a while to load, and few pages draw with it

    drawn = go.Figure()
    for number, chart in enumerate(found.charts, start=1):
        for line in chart.lines:
            drawn.add_scatter(
                x=found.x,
                y=line.values,
                name=line.name,
                mode="lines",
                line={"dash": DASHES[line.dash % len(DASHES)], "width": 2.5},
                meta=line.kind,
                legend="legend" if number == 1 else "legend2",
                xaxis=f"x{number if number > 1 else ''}",
                yaxis=f"y{number if number > 1 else ''}",
                hovertemplate="%{y:.4f}",
            )
    # Plotly would write `sub` with a style attribute, which the page's policy forbids.
    name = found.name.striptags().translate(_SUBSCRIPTS)
    both: dict[str, Any] = {"showgrid": True, "zeroline": False, "title": {"text": name}}
    upright = {"zeroline": False, "showspikes": False}
    top = max(1e-9, *(max(line.values) for line in found.charts[0].lines)) * 1.08
    drawn.update_layout(
        template="none",
        xaxis={**both, "domain": [0, 0.44]},
        xaxis2={**both, "domain": [0.56, 1], "anchor": "y2", "matches": "x"},
        yaxis={**upright, "title": {"text": found.charts[0].y}, "range": [-0.04 * top, top]},
        yaxis2={**upright, "title": {"text": found.charts[1].y}, "range": [-0.04, 1.06]}
        | {"anchor": "x2"},
        hovermode="x unified",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        legend2={"orientation": "h", "x": 0.56, "y": 1.02, "yanchor": "bottom"},
        margin={"l": 56, "r": 12, "t": 40, "b": 46},
        shapes=[
            {"type": "line", "x0": found.here, "x1": found.here, "y0": 0, "y1": 1}
            | {"xref": axis, "yref": f"{place} domain", "line": {"width": 1, "dash": "dot"}}
            for axis, place in (("x", "y"), ("x2", "y2"))
        ],
    )
    return str(drawn.to_json())


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high` for an axis: three to six of them.

    >>> ticks(0, 2.527), ticks(-4, 6), ticks(0, 1)
    ([0.0, 1.0, 2.0], [-4.0, -2.0, 0.0, 2.0, 4.0, 6.0], [0.0, 0.5, 1.0])
    """
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(step for step in (5, 2, 1, 0.5, 0.2) if (high - low) / (step * power) >= 2) * power
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def drawing(found: Sweep, chart: Chart, prefix: str = "") -> Markup:
    """One chart as an `svg` element, with its curves named at their ends."""
    width, height, left, right, top, bottom = 460, 250, 46, 96, 12, 34
    low, high = found.x[0], found.x[-1]
    most = 1.0
    if chart is found.charts[0]:
        most = max(1e-9, *(max(line.values) for line in chart.lines)) * 1.05

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (x - low) / ((high - low) or 1) * (width - left - right)
        return across, top + (1 - y / most) * (height - top - bottom)

    out = []
    for value in ticks(0.0, most):
        _, y = place(low, value)
        out.append(f'<path class="grid" d="M{left} {y:.1f}H{width - right}"/>')
        out.append(f'<text class="soft" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">')
        out.append(f"{inline(value)}</text>")
    for value in ticks(low, high):
        x, y = place(value, 0)
        out.append(f'<text class="soft" x="{x:.1f}" y="{y + 19:.1f}" text-anchor="middle">')
        out.append(f"{inline(value)}</text>")
    x, y = place(found.here, 0)
    out.append(f'<path class="now" d="M{x:.1f} {top}V{y:.1f}"/>')
    taken: list[float] = []
    for line in sorted(chart.lines, key=lambda line: line.values[-1]):
        points = [place(*point) for point in zip(found.x, line.values, strict=True)]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
        dash = _SVG_DASHES[line.dash % len(_SVG_DASHES)]
        style = f' stroke-dasharray="{dash}"' if dash else ""
        out.append(f'<path class="curve {line.kind}" d="M{path}"{style}/>')
        end = points[-1][1] + 4
        while any(abs(end - other) < 16 for other in taken):
            end -= 1
        taken.append(end)
        out.append(f'<text class="{line.kind}" x="{width - right + 6}" y="{end:.1f}">')
        out.append(f"{escape(line.name)}</text>")
    words = "; ".join(
        f"{line.name}: from {short(line.values[0])} to {short(line.values[-1])}, "
        f"at most {short(max(line.values))}"
        for line in chart.lines
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-labelledby="{p}{id}">'
        '<title id="{p}{id}">{title}. {words}</title>{body}</svg>'
    ).format(
        w=width,
        h=height,
        p=prefix,
        id="chart-" + ("notices" if chart is found.charts[0] else "shares"),
        title=chart.title,
        words=words,
        body=Markup("".join(out)),
    )
