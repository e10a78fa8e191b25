"""Tokens as a page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from app.translation.protocol import Token, TokenKind
from app.translation.tokenizer import Tokenizer


def shown(tokenizer: Tokenizer, ids: Iterable[int]) -> tuple[Token, ...]:
    """The tokens of `ids`, in order; each byte knows the character that it belongs to."""
    pieces = tokenizer.pieces(ids)
    tokens = [Token(piece.id, piece.text, cast(TokenKind, piece.kind)) for piece in pieces]
    for start, end, character in _characters(tokens):
        for i in range(start, end):
            tokens[i] = Token(tokens[i].id, tokens[i].text, tokens[i].kind, character)
    return tuple(tokens)


def _characters(tokens: list[Token]) -> Iterator[tuple[int, int, str]]:
    """Runs of byte tokens that make a character in UTF-8: first, end, the character."""
    i = 0
    while i < len(tokens):
        for length in (1, 2, 3, 4):
            run = tokens[i : i + length]
            if len(run) < length or any(token.kind != "byte" for token in run):
                i += 1
                break
            try:
                character = bytes(int(token.text[3:5], 16) for token in run).decode()
            except UnicodeDecodeError:
                continue
            yield i, i + length, character
            i += length
            break
        else:
            i += 1
