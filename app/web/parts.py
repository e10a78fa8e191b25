"""An edit changes a few parts of a panel: only those travel, and only those are painted anew.

A part is an element written as `<tag data-part id="…">` that holds no other element of its own tag:
a table's row, a list, a paragraph. What is not inside a part is the panel's frame. A form says in
its hidden field `shown` what stands on the screen (`View.showing`). Where its frame is the same in
the new state the answer is one `<hx-partial>` for each part that differs; otherwise, and whenever
anything is unclear, it is the whole panel.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

MOST_PARTS: Final = 90
"""With more of them than this one swap of the whole panel is faster."""

REMEMBERED: Final = 128
"""States whose parts are kept in memory, about 60 KB each; another one is written again."""

_PART: Final = re.compile(r'<(\w+) data-part id="([^"]+)"')
_STATE_IN_LINK: Final = re.compile(r'href="\?[^"]*show=')


@dataclass(frozen=True, slots=True)
class Parts:
    """A panel taken apart, its links to numbers without the state in them: scripts bring them up to
    date when they are used, and two states can be compared.
    """

    frame: str
    """What is outside of the parts."""
    html: dict[str, str]
    """Each part, by its id."""

    @classmethod
    def of(cls, panel: str) -> Parts:
        """Take a panel's HTML apart."""
        panel = str.__str__(panel)  # a plain one: pieces of Markup would each be made Markup again
        if link := _STATE_IN_LINK.search(panel):
            panel = panel.replace(link[0], 'href="?show=')
        frame, html, at = [], {}, 0
        for start in _PART.finditer(panel):
            closing = f"</{start[1]}>"
            end = panel.index(closing, start.end()) + len(closing)
            frame += [panel[at : start.start()], start[2]]
            html[start[2]] = panel[start.start() : end]
            at = end
        frame.append(panel[at:])
        return cls("".join(frame), html)

    def since(self, before: Parts) -> str | None:
        """The parts that differ from `before`, or None where the whole panel is the better
        answer.
        """
        if self.frame != before.frame:
            return None
        changed = [
            f'<hx-partial id="{part}" hx-swap="outerMorph">{text}</hx-partial>'
            for part, text in self.html.items()
            if text != before.html[part]
        ]
        return None if len(changed) > MOST_PARTS else "\n".join(changed)


class RecentParts:
    """The parts of the states that were shown last, for whoever changes one of them next."""

    def __init__(self, size: int = REMEMBERED) -> None:
        """Keep `size` states."""
        self._size = size
        self._kept: OrderedDict[Hashable, Parts] = OrderedDict()

    def keep(self, key: Hashable, parts: Parts) -> None:
        """Remember, and forget what was used longest ago."""
        self._kept[key] = parts
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def get(self, key: Hashable, write: Callable[[], str | None]) -> Parts | None:
        """What was kept; else what `write` writes, taken apart; None where it cannot."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        text = write()
        return None if text is None else Parts.of(text)
