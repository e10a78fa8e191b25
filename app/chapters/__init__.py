"""The table of contents: the chapters, in the order in which they are read."""

from __future__ import annotations

from typing import Any, Final

from app.chapters import three_positions
from app.chapters.contract import Chapter
from app.chapters.translate import Translate
from app.translation.protocol import Translator


def table_of_contents(translator: Translator | None = None) -> tuple[Chapter[Any], ...]:
    """Every chapter; those that translate ask `translator`, or do without where there is none."""
    return (three_positions.load(), Translate(translator))


CHAPTERS: Final[tuple[Chapter[Any], ...]] = table_of_contents()
