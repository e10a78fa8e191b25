"""The table of contents: the chapters, in the order in which they are read."""

from __future__ import annotations

from typing import Any, Final

from app.chapters import three_positions
from app.chapters.contract import Chapter

CHAPTERS: Final[tuple[Chapter[Any], ...]] = (three_positions.load(),)
