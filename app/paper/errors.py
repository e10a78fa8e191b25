"""What can be wrong with the numbers handed to this package; every message names the argument."""

from __future__ import annotations


class PaperError(ValueError):
    """The base of this package's errors: a value the paper's arithmetic cannot take."""


class ShapeError(PaperError):
    """An array whose shape does not fit the others; the message gives both."""


class RangeError(PaperError):
    """A number outside what the formula is defined for; the message says what is accepted."""
