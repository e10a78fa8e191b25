"""The translation that is on the page before a model is ready: made in advance, by the real model.

`python -m scripts.translate_default` makes the file again; a test holds it to the checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from app.translation.protocol import Candidate, Hypothesis, Sentence, Token, Translation

PATH: Final = Path(__file__).with_name("translate_default.json")


def write_default(translation: Translation) -> str:
    """The file's text. Times are left out: they are another machine's."""
    values = asdict(translation) | {"seconds": 0.0}
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def load_default(path: Path = PATH) -> Translation | None:
    """The translation made in advance, or None where there is none."""
    if not path.is_file():
        return None
    return read_default(path.read_text(encoding="utf-8"))


def read_default(text: str) -> Translation:
    """What `write_default` wrote."""
    values = json.loads(text)
    return Translation(**values | {"sentences": tuple(map(_sentence, values["sentences"]))})


def _sentence(values: dict[str, Any]) -> Sentence:
    return Sentence(
        text=values["text"],
        source_tokens=_tokens(values["source_tokens"]),
        hypotheses=tuple(
            Hypothesis(**h | {"tokens": _tokens(h["tokens"]), "log_probs": tuple(h["log_probs"])})
            for h in values["hypotheses"]
        ),
        history=tuple(
            tuple(Candidate(**c | {"token": Token(**c["token"])}) for c in step)
            for step in values["history"]
        ),
    )


def _tokens(values: list[dict[str, Any]]) -> tuple[Token, ...]:
    return tuple(Token(**token) for token in values)
