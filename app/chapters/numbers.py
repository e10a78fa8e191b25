"""How numbers are written on a page: short in a matrix, longer in a formula, whole on demand.

Minus is U+2212. A number that is not zero never looks like zero: what three decimals cannot show is
written with a power of ten, so that "0.000" means exactly 0 (of either sign) and "−0.000" does not
occur.
"""

from __future__ import annotations

import math
from typing import Final

MINUS: Final = "\N{MINUS SIGN}"
INFINITY: Final = "\N{INFINITY}"
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float) -> str:
    """Three decimals, for a cell of a matrix; a power of ten from 100,000 on and below 0.0005.

    >>> short(-0.70710678), short(0), short(1e6), short(-0.0003)
    ('−0.707', '0.000', '1.00×10⁶', '−3.00×10⁻⁴')
    """
    special = _special(value)
    if special:
        return special
    size = abs(value)
    if size >= 99_999.9995 or 0 < size < 0.0005:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{mantissa}×10{str(int(power)).translate(_SUPERSCRIPTS)}".replace("-", MINUS)
    return f"{value + 0.0:.3f}".replace("-", MINUS)


def full(value: float) -> str:
    """Every digit: the shortest decimal that is exactly this float64, with ASCII signs for pasting.

    >>> full(0.1 + 0.2), full(1e6)
    ('0.30000000000000004', '1000000.0')
    """
    return repr(float(value))


def parts(value: float) -> tuple[str, int | None]:
    """The digits and the power of ten of a number in a formula; None where it needs no power.

    Six decimals, fewer where fewer are exact; three from 1,000 on. Powers of ten from 10 million on
    and below 0.0001. The minus is ASCII here, for `mathml.number` to take apart.

    >>> parts(0.5), parts(1 / 3), parts(2e12), parts(-3.14e-9)
    (('0.5', None), ('0.333333', None), ('2', 12), ('-3.14', -9))
    """
    special = _special(value)
    if special:
        return special.replace(MINUS, "-"), None
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        mantissa, power = f"{value:.6e}".split("e")
        return _trimmed(mantissa, float(mantissa + "e" + power) == value), int(power)
    text = f"{value + 0.0:.{6 if size < 1000 else 3}f}"
    return _trimmed(text, float(text) == value), None


def is_exact(value: float) -> bool:
    """Whether a formula shows all of this number.

    >>> is_exact(0.25), is_exact(1 / 3), is_exact(1e12)
    (True, False, True)
    """
    digits, power = parts(value)
    return math.isfinite(value) and float(f"{digits}e{power or 0}") == value


def inline(value: float) -> str:
    """A number in a sentence: as in a formula, in plain text.

    >>> inline(-0.5), inline(2e12)
    ('−0.5', '2×10¹²')
    """
    digits, power = parts(value)
    raised = "" if power is None else f"×10{str(power).translate(_SUPERSCRIPTS)}"
    return digits.replace("-", MINUS) + raised


def _special(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return INFINITY if value > 0 else MINUS + INFINITY
    return ""


def _trimmed(text: str, exact: bool) -> str:
    return text.rstrip("0").rstrip(".") if exact and "." in text else text
