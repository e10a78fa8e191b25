"""The states that the three-position chapter's prose speaks of, calculated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.chapters import addresses
from app.chapters.numbers import short
from app.chapters.three_positions_state import Languages


class Said:
    """A state that the prose speaks of: its numbers are calculated, not written down."""

    def __init__(self, languages: Languages, **changes: Any) -> None:
        """The chapter's own example with some changes."""
        parameters = replace(languages.default(), **changes)
        self._languages = languages
        self._parameters = parameters
        self._now = languages.of(parameters).calculate(parameters)
        self.query = languages.write(parameters)

    def text(self, address: str) -> str:
        """A number, as the tables show it."""
        return short(float(addresses.numbers(self._now, addresses.parse(address, self._now))))

    def open(self, address: str) -> str:
        """The query of this state with that number open."""
        return self._languages.write(replace(self._parameters, show=address))


def states_of_the_prose(languages: Languages) -> dict[str, Said]:
    """What the prose compares, by the name that it uses."""
    default = languages.default()
    edited = {"x": (*default.x[:2], (2.0, -1.0, 1.0, 0.0)), "position": 2}
    return {
        "original": Said(languages),
        "all": Said(languages, mask="all", position=2),
        "edited": Said(languages, **edited),
        "edited_all": Said(languages, **edited, mask="all"),
        "unscaled": Said(languages, scaled=False),
        "swapped": Said(languages, w_o="swapped"),
        "averaged": Said(languages, w_o="averaged"),
        "huge": Said(languages, x=(*default.x[:2], (1e6, 1.0, 0.0, 0.0))),
        "constant": Said(languages, x=((1.0,) * 4, *default.x[1:]), position=1),
    }
