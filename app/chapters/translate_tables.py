"""Tables of the translation chapter: n-best list, heads to silence, heads ranked, the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from app.chapters import translate_attention as attention
from app.chapters.numbers import MINUS, short
from app.chapters.translate_state import KINDS, Head
from app.chapters.translate_tokens import Label, label
from app.translation.protocol import AttentionKind, CacheStep, HeadImportance, Hypothesis, Trace

_WORK: Final = ("multiply_adds_with", "multiply_adds_without")
_TIME: Final = ("seconds_with", "seconds_without")


class Entry(NamedTuple):
    """One line of the n-best list."""

    number: int
    hypothesis: Hypothesis
    tokens: list[Label]
    log_prob: str
    length: int
    penalty: str
    score: str
    query: str
    current: bool


class Ranked(NamedTuple):
    """One head, and what the translation's log-probability loses without it."""

    place: int
    head: Head
    title: str
    change: str
    harms: bool
    width: int
    query: str


class CacheLine(NamedTuple):
    """One step with and without the cache."""

    position: int
    token: Label
    rows_with: int
    rows_without: int
    work_with: str
    work_without: str
    time_with: str
    time_without: str
    width_with: int
    width_without: int


class Cache(NamedTuple):
    """The whole comparison."""

    lines: list[CacheLine]
    work: str
    time: str
    same: bool
    largest: str
    kilobytes: str


def grid(
    trace: Trace, silenced: Sequence[Head]
) -> list[tuple[AttentionKind, str, list[list[tuple[str, bool]]]]]:
    """The heads that can be silenced, by kind and layer, and whether each is."""

    def layer_of(kind: AttentionKind, layer: int) -> list[tuple[str, bool]]:
        heads = [Head(kind, layer, n + 1) for n in range(trace.attention(kind).shape[1])]
        return [(str(head), head in silenced) for head in heads]

    return [
        (
            kind,
            attention.TITLES[kind],
            [layer_of(kind, layer + 1) for layer in range(trace.attention(kind).shape[0])],
        )
        for kind in KINDS
    ]


def ranking(heads: Sequence[HeadImportance], to: Callable[..., str]) -> list[Ranked]:
    """The heads as they come, the one that is missed most first; `to` writes another state."""
    most = max((abs(entry.change) for entry in heads), default=0.0) or 1.0
    ranked = []
    for place, entry in enumerate(heads, start=1):
        head = Head(entry.kind, entry.layer + 1, entry.head + 1)
        ranked.append(
            Ranked(
                place,
                head,
                f"{attention.TITLES[entry.kind]}, layer {head.layer}, head {head.number}",
                _signed(entry.change),
                entry.change > 0,
                round(abs(entry.change) / most * 100),
                to(silence=(head,), edit=0, to="", to_id=0),
            )
        )
    return ranked


def cache(steps: Sequence[CacheStep]) -> Cache:
    """Work and time of every step, and what they add up to; at least one step."""
    with_, without = (sum(getattr(s, n) for s in steps) for n in _WORK)
    quick, slow = (sum(getattr(s, n) for s in steps) for n in _TIME)
    longest = max(max(s.seconds_with, s.seconds_without) for s in steps)
    largest = max(s.largest_difference for s in steps)
    return Cache(
        [
            CacheLine(
                s.position + 1,
                label(s.token),
                s.positions_with,
                s.positions_without,
                _millions(s.multiply_adds_with),
                _millions(s.multiply_adds_without),
                f"{s.seconds_with * 1000:.1f}",
                f"{s.seconds_without * 1000:.1f}",
                round(s.seconds_with / longest * 100),
                round(s.seconds_without / longest * 100),
            )
            for s in steps
        ],
        f"{without / with_:.1f}",
        f"{slow / quick:.1f}",
        largest < 1e-3,
        short(largest),
        f"{steps[-1].bytes_cached / 1024:,.0f}",
    )


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f}"


def _signed(value: float) -> str:
    text = short(value)
    return text if text.startswith(MINUS) or value == 0 else f"+{text}"
