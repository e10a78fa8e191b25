"""The shared vocabulary: nothing typed is lost, special tokens are where all expect them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.translation.tokenizer import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Tokenizer,
    TokenizerError,
    clean,
    train_tokenizer,
)

SENTENCES = [
    "The children are playing in the garden.",
    "Die Kinder spielen im Garten.",
    "Where is the station?",
    "Wo ist der Bahnhof?",
] * 20


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(iter(SENTENCES), 295)


def test_special_tokens(tokenizer: Tokenizer) -> None:
    assert (PAD_ID, UNK_ID, BOS_ID, EOS_ID) == (0, 1, 2, 3)
    assert [tokenizer.piece(i).kind for i in range(4)] == ["pad", "unknown", "start", "end"]
    assert tokenizer.vocab_size == 295


def test_end_closes_what_is_encoded(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Wo ist der Bahnhof?")
    assert ids[-1] == EOS_ID
    assert tokenizer.encode("Wo ist der Bahnhof?", end=False) == ids[:-1]
    assert tokenizer.decode([BOS_ID, *ids, PAD_ID]) == "Wo ist der Bahnhof?"


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(text=TEXT)
@example(text="☃ snow")
@example(text="\N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT}")
@example(text="日本語")
def test_nothing_typed_is_lost(tokenizer: Tokenizer, text: str) -> None:
    """Property: single-spaced text comes back, in NFC; "▁" itself stands for a space."""
    if "▁" not in text:
        assert tokenizer.decode(tokenizer.encode(text)) == clean(text)


def test_unknown_characters_become_bytes(tokenizer: Tokenizer) -> None:
    """By hand: the snowman is E2 98 83 in UTF-8."""
    pieces = tokenizer.pieces(tokenizer.encode("☃", end=False))
    assert [piece.text for piece in pieces if piece.kind == "byte"] == [
        "<0xE2>",
        "<0x98>",
        "<0x83>",
    ]


def test_typographic_characters_stay_what_they_are(tokenizer: Tokenizer) -> None:
    """Compatibility forms are another text: "ﬁ" is not turned into "fi", nor "½" into "1/2"."""
    assert tokenizer.decode(tokenizer.encode("ﬁ ½")) == "ﬁ ½"


def test_other_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="not a SentencePiece model"):
        Tokenizer(b"no model")
    with pytest.raises(TokenizerError, match=r"cannot read .*none\.model"):
        Tokenizer.load(tmp_path / "none.model")
    with pytest.raises(TokenizerError, match="could not be trained"):
        train_tokenizer(iter(["a"]), 8000)
