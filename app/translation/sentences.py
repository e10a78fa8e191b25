"""Splitting a text into sentences: one documented rule, no model.

A sentence ends at a line's end, and after a word that closes with `.`, `!`, `?` or `…` (quotes and
brackets may follow) if the next word can open a sentence: an upper-case letter, a digit or a letter
without case, after quotes and brackets. A full stop ends none after a known abbreviation, a single
letter (an initial), or a number that opens the sentence ("1. First").
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\S+")
_OPENING = "\"'‘“„«»([¿¡"
_CLOSING = "\"'’“”«»)]"
_MARKS = ".!?…"
_ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "gen", "col", "capt", "lt", "sgt"),
        *("rev", "hon", "vs", "eq", "approx", "e.g", "i.e", "cf", "fig", "vol", "inc", "ltd"),
        *("jan", "feb", "aug", "sep", "sept", "oct", "nov", "dec", "a.m", "p.m", "u.s", "u.k"),
    )
)


def split_sentences(text: str) -> list[str]:
    """The sentences of `text`, in order, without surrounding white space; none for a blank text.

    >>> split_sentences("Mr. Smith came. He sat down!  Why?")
    ['Mr. Smith came.', 'He sat down!', 'Why?']
    """
    return [sentence for line in text.splitlines() for sentence in _of_line(line)]


def _of_line(line: str) -> list[str]:
    words = list(_WORD.finditer(line))
    sentences = []
    first = 0
    for i, word in enumerate(words):
        last = i + 1 == len(words)
        if last or (_closes(word[0], alone=i == first) and _opens(words[i + 1][0])):
            sentences.append(line[words[first].start() : word.end()])
            first = i + 1
    return sentences


def _opens(word: str) -> bool:
    start = word.lstrip(_OPENING)[:1]
    return start.isdigit() or (start.isalpha() and not start.islower())


def _closes(word: str, *, alone: bool) -> bool:
    """Whether a sentence may end after `word`, which is its only one so far if `alone`."""
    word = word.rstrip(_CLOSING)
    if not word.endswith(tuple(_MARKS)):
        return False
    if not word.endswith(".") or word.endswith(".."):
        return True
    stem = word[:-1].lstrip(_OPENING).lower()
    initial = len(stem) == 1 and stem.isalpha() and stem != "i"
    return not (initial or stem in _ABBREVIATIONS or (alone and stem.isdigit()))
