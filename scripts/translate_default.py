"""Make the translation that the chapter shows before its model is ready, with that very model.

python -m scripts.translate_default          write it
python -m scripts.translate_default --check  fail if the file says anything else
"""

from __future__ import annotations

import asyncio
import sys

from app.chapters.translate_answers import PRECOMPUTED
from app.chapters.translate_default import PATH, write_default
from app.chapters.translate_state import DEFAULT_TEXT
from app.paths import MODEL_WEIGHTS
from app.translation.service import TranslationService


async def made() -> str:
    """The file's text, by the model in model_weights/."""
    service = TranslationService(MODEL_WEIGHTS, device="cpu", threads=1)
    await service.start()
    try:
        return write_default(await service.translate(DEFAULT_TEXT, PRECOMPUTED))
    finally:
        await service.stop()


def main() -> int:
    """Write or compare; the exit status."""
    text = asyncio.run(made())
    if sys.argv[1:] == ["--check"]:
        return 0 if PATH.is_file() and PATH.read_text(encoding="utf-8") == text else 1
    PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
