"""Tokens as a page writes them: pieces faithfully, bytes in hexadecimal, START and END as signs."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from app.translation.protocol import Token

_SPECIAL: Final = {"start": "START", "end": "END", "pad": "PAD", "unknown": "UNKNOWN"}
_HIDDEN: Final = {"Cc", "Cf", "Zs", "Zl", "Zp", "Co", "Cn"}
SPACE: Final = "▁"  # SentencePiece's mark for the space before a word


class Label(NamedTuple):
    """One token, ready to be written."""

    id: int
    kind: str
    text: str
    """Plain: for pictures, files and names."""
    html: Markup
    says: str
    """For those who listen: `the piece “▁Katze”`."""


@lru_cache(maxsize=4096)
def label(token: Token) -> Label:
    """How a token is written.

    >>> label(Token(3, "</s>", "end")).text, label(Token(300, "<0xF0>", "byte", "😀")).text
    ('END', 'F0')
    """
    if token.kind in _SPECIAL:
        text = _SPECIAL[token.kind]
        return Label(
            token.id, "special", text, Markup('<b class="token special">{}</b>').format(text), text
        )
    if token.kind == "byte":
        text = token.text[3:5]
        of = f", part of “{visible(token.character)}”" if token.character else ""
        html = Markup(
            '<span class="token byte" title="Byte {0} in hexadecimal{1}">{0}</span>'
        ).format(text, of)
        return Label(token.id, "byte", text, html, f"byte {text}{of}")
    text = visible(token.text)
    body = escape(text)
    if text.startswith(SPACE):
        body = Markup('<span class="space">▁</span>') + escape(text[1:])
    html = Markup('<bdi class="token">{}</bdi>').format(body)
    return Label(token.id, "text", text, html, f"“{text}”")


def visible(text: str) -> str:
    r"""`text` with what nobody could see written out, and marks given something to stand on.

    >>> visible("a\u200db"), visible("\u0301")
    ('aU+200Db', '◌́')
    """
    shown = []
    for character in text:
        category = unicodedata.category(character)
        if category in _HIDDEN:
            shown.append(f"U+{ord(character):04X}")
        elif category.startswith("M") and not shown:
            shown.append("◌" + character)
        else:
            shown.append(character)
    return "".join(shown)


def joined(tokens: Sequence[Token]) -> str:
    """The text that tokens make; bytes that make no character, or a control, are left out."""
    raw = bytearray()
    for token in tokens:
        if token.kind == "text":
            raw += token.text.encode("utf-8", "replace")
        elif token.kind == "byte":
            raw.append(int(token.text[3:5], 16))
    text = raw.decode("utf-8", "ignore").replace(SPACE, " ").strip()
    return "".join(c for c in text if unicodedata.category(c) != "Cc")
