"""The table of contents: the chapters, in the order in which they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from app.chapters import three_positions
from app.chapters.contract import Chapter
from app.chapters.translate import Translate
from app.paths import MODEL_WEIGHTS
from app.translation.protocol import Translator


def table_of_contents(
    translator: Translator | None = None, models: Path = MODEL_WEIGHTS
) -> tuple[Chapter[Any], ...]:
    """Every chapter; those that translate ask `translator` (None: nobody) for the `models`."""
    return (three_positions.load(), Translate(translator, models))


CHAPTERS: Final[tuple[Chapter[Any], ...]] = table_of_contents()
