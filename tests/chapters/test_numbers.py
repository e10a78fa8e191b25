"""How numbers are written."""

from __future__ import annotations

import doctest
import importlib
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chapters import mathml, numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (1, "1.000"),
        (-0.70710678, "−0.707"),
        (0.0005, "0.001"),
        (0.00049, "4.90×10⁻⁴"),
        (-0.0003, "−3.00×10⁻⁴"),
        (1e-300, "1.00×10⁻³⁰⁰"),
        (12345.6789, "12345.679"),
        (99_999.9994, "99999.999"),
        (99_999.9996, "1.00×10⁵"),
        (1e6, "1.00×10⁶"),
        (-2e12, "−2.00×10¹²"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "undefined"),
    ],
)
def test_short(value: float, text: str) -> None:
    assert numbers.short(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_only_zero_looks_like_zero(value: float) -> None:
    text = numbers.short(value)
    assert (text == "0.000") == (value == 0)
    assert "-" not in text
    assert len(text) <= 12


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_full_is_every_digit(value: float) -> None:
    assert float(numbers.full(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_means_that_the_formula_shows_all_of_it(value: float) -> None:
    digits, power = numbers.parts(value)
    shown = float(f"{digits}e{power or 0}")
    assert numbers.is_exact(value) == (shown == value)
    assert shown == pytest.approx(value, rel=1e-6, abs=5e-7)


@given(st.floats())
def test_inline_and_mathml_show_the_same_digits(value: float) -> None:
    inline = re.sub(r"×10[⁻⁰-⁹¹²³]+$", "", numbers.inline(value)).removeprefix("−")
    assert f"<mn>{inline}</mn>" in str(mathml.number(value))


def test_infinity_and_undefined_are_not_exact() -> None:
    assert not any(map(numbers.is_exact, (math.inf, -math.inf, math.nan)))


def test_everything_is_escaped() -> None:
    bad = '<script>"&'
    for make in (mathml.identifier, mathml.operator, mathml.words, mathml.digits, mathml.bracket):
        assert "<script>" not in make(bad)
    assert "<script>" not in mathml.indexed(bad, bad, 1, above=bad)
    assert "<script>" not in mathml.summed(bad, mathml.words(bad))


@pytest.mark.parametrize(
    "name",
    [
        "numbers",
        "mathml",
        "addresses",
        "arithmetic.place",
        "arithmetic.head",
        "arithmetic.sublayer",
    ],
)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"app.chapters.{name}")).failed == 0
