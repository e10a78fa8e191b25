"""The beam search as a tree: which continuations were kept, finished or dropped at each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from app.chapters.numbers import short
from app.chapters.translate_tokens import Label, joined, label
from app.translation.protocol import Candidate, Fate, Hypothesis, Sentence, Token

_WIDE: Final = 104  # of one step, in SVG units
_BOX: Final = 86
_HIGH: Final = 44  # of one candidate
_TALL: Final = 34
_LEFT: Final = 74  # room for START
_TOP: Final = 26


class Node(NamedTuple):
    """A candidate that was kept or finished, and where it stands."""

    token: Label
    so_far: tuple[Token, ...]
    log_prob: float
    fate: Fate
    row: int
    parent: int
    """The row of the step before that it continues."""
    chosen: bool
    """On the way to the hypothesis that is looked at."""


class Line(NamedTuple):
    """A candidate in the list."""

    token: Label
    so_far: str
    token_log_prob: str
    log_prob: str
    fate: Fate
    chosen: bool


class Step(NamedTuple):
    """What one step of the search looked at."""

    number: int
    lines: list[Line]


class Tree(NamedTuple):
    """The whole search."""

    steps: list[Step]
    drawing: Markup
    kept: int
    dropped: int


def tree(sentence: Sentence, hypothesis: Hypothesis) -> Tree:
    """The search for a sentence's translations, with the way to one of them marked."""
    wanted = tuple(token.id for token in hypothesis.tokens)
    columns: list[list[Node]] = []
    steps: list[Step] = []
    running: list[tuple[tuple[Token, ...], int]] = [((), 0)]  # what was kept, and its row
    for number, candidates in enumerate(sentence.history, start=1):
        nodes: list[Node] = []
        lines: list[Line] = []
        kept: list[tuple[tuple[Token, ...], int]] = []
        for candidate in candidates:
            before, parent_row = running[candidate.parent]
            so_far = (*before, candidate.token)
            ids = tuple(token.id for token in so_far)
            chosen = ids == wanted[: len(ids)] and (candidate.fate == "kept" or ids == wanted)
            lines.append(_line(candidate, before, chosen))
            if candidate.fate == "dropped":
                continue
            row = len(nodes)
            nodes.append(
                Node(
                    label(candidate.token),
                    so_far,
                    candidate.log_prob,
                    candidate.fate,
                    row,
                    parent_row,
                    chosen,
                )
            )
            if candidate.fate == "kept":
                kept.append((so_far, row))
        columns.append(nodes)
        steps.append(Step(number, lines))
        running = kept
    everything = [line for step in steps for line in step.lines]
    dropped = sum(line.fate == "dropped" for line in everything)
    return Tree(steps, draw(columns), len(everything) - dropped, dropped)


def draw(columns: Sequence[Sequence[Node]]) -> Markup:
    """The tree as an `svg`: a column a step, the likeliest candidate on top."""
    rows = max((len(nodes) for nodes in columns), default=1)
    width = _LEFT + len(columns) * _WIDE
    height = _TOP + rows * _HIGH + 4
    edges, boxes = [], []
    for step, nodes in enumerate(columns):
        x = _LEFT + step * _WIDE
        boxes.append(
            Markup('<text class="soft" x="{}" y="14" text-anchor="middle">step {}</text>').format(
                x + _BOX / 2, step + 1
            )
        )
        for node in nodes:
            y = _TOP + node.row * _HIGH + _TALL / 2
            from_x = x - (_WIDE - _BOX)
            from_y = _TOP + node.parent * _HIGH + _TALL / 2
            css = " chosen" if node.chosen else ""
            middle = (from_x + x) / 2
            edges.append(
                Markup(
                    '<path class="edge{}" d="M{:g} {:g}C{:g} {:g} {:g} {:g} {:g} {:g}"/>'
                ).format(css, from_x, from_y, middle, from_y, middle, y, x, y)
            )
            boxes.append(_box(node, x, y, css))
    boxes.append(
        Markup(
            '<rect class="node root" x="2" y="{}" width="{}" height="{}" rx="6"/>'
            '<text class="special" x="{}" y="{}" text-anchor="middle">START</text>'
        ).format(_TOP, _LEFT - (_WIDE - _BOX) - 2, _TALL, (_LEFT - 18) / 2 + 1, _TOP + 21)
    )
    return Markup(
        '<svg class="tree" viewBox="0 0 {0} {1}" width="{0}" height="{1}" aria-hidden="true">'
        "{2}{3}</svg>"
    ).format(width, height, Markup("").join(edges), Markup("").join(boxes))


def _box(node: Node, x: float, y: float, css: str) -> Markup:
    text = node.token.text
    if len(text) > 10:
        text = text[:9] + "…"
    kind = " special" if node.token.kind == "special" else ""
    return Markup(
        '<g class="{fate}{css}"><title>{title}</title>'
        '<rect class="node" x="{x:g}" y="{top:g}" width="{w}" height="{h}" rx="6"/>'
        '<text class="piece{kind}" x="{mid:g}" y="{a:g}" text-anchor="middle">{text}</text>'
        '<text class="soft" x="{mid:g}" y="{b:g}" text-anchor="middle">{log_prob}</text></g>'
    ).format(
        fate=node.fate,
        css=css,
        title=joined(node.so_far),
        x=x,
        top=y - _TALL / 2,
        w=_BOX,
        h=_TALL,
        kind=kind,
        mid=x + _BOX / 2,
        a=y - 2,
        b=y + 12,
        text=text,
        log_prob=short(node.log_prob),
    )


def _line(candidate: Candidate, before: tuple[Token, ...], chosen: bool) -> Line:
    return Line(
        label(candidate.token),
        joined(before),
        short(candidate.token_log_prob),
        short(candidate.log_prob),
        candidate.fate,
        chosen,
    )
