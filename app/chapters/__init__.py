"""The table of contents: the chapters, in the order in which they are read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from app.chapters import three_positions
from app.chapters.contract import Chapter
from app.chapters.translate import Translate
from app.chapters.worked_example import WorkedExampleError
from app.paths import MODEL_WEIGHTS, WORKED_EXAMPLES
from app.translation.protocol import Translator

_log: Final = logging.getLogger(__name__)


def table_of_contents(
    translator: Translator | None = None,
    models: Path = MODEL_WEIGHTS,
    examples: Path = WORKED_EXAMPLES,
) -> tuple[Chapter[Any], ...]:
    """Every chapter; those that translate ask `translator` (None: nobody) for the `models`.

    A chapter whose own worked example, among the `examples`, is refused is left out, and the log
    says why.
    """
    return (*_sound(lambda: three_positions.load(examples)), Translate(translator, models))


def _sound(load: Callable[[], Chapter[Any]]) -> Iterator[Chapter[Any]]:
    try:
        yield load()
    except WorkedExampleError as error:
        _log.error("chapter left out: %s", error)


CHAPTERS: Final[tuple[Chapter[Any], ...]] = table_of_contents()
