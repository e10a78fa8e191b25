"""The rule of app/translation/sentences.py, on sentences made for it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.translation.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n\t ", []),
        ("One sentence", ["One sentence"]),
        ("It rains. It pours.", ["It rains.", "It pours."]),
        ("Really?! Yes… No.", ["Really?!", "Yes…", "No."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("Dr. Who met Mrs. Peel.", ["Dr. Who met Mrs. Peel."]),
        ("J. S. Bach wrote it.", ["J. S. Bach wrote it."]),
        ("It was I. You knew.", ["It was I.", "You knew."]),
        ("I said no. Then I left.", ["I said no.", "Then I left."]),
        ("It costs 3.50 euros. 7 of us paid.", ["It costs 3.50 euros.", "7 of us paid."]),
        ("1. Open it. 2. Close it.", ["1. Open it.", "2. Close it."]),
        ("see example.com for more. ok", ["see example.com for more. ok"]),
        ("a line\nanother line", ["a line", "another line"]),
        ("Gut. Über uns.", ["Gut.", "Über uns."]),
        ("a<b </s> 😀 ä & #", ["a<b </s> 😀 ä & #"]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@given(st.text(max_size=200))
def test_nothing_but_white_space_is_lost(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["^" * 10_000, "." * 10_000, "A. " * 3_000, '"' * 10_000])
def test_takes_no_time(text: str) -> None:
    started = time.perf_counter()
    split_sentences(text)
    assert time.perf_counter() - started < 0.5
