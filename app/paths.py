"""Where the files that are not Python live: in the checkout, or inside the installed wheel.

A checkout has `templates/` beside `app/`. A wheel carries the same folders, and the npm files that
the pages need, in `app/_bundled/` (`hatch_build.py` puts them there). Nothing else in the
application may guess a location.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent
_CHECKOUT: Final = _PACKAGE.parent

IS_CHECKOUT: Final[bool] = (_CHECKOUT / "templates" / "base.html").is_file()
_ROOT: Final = _CHECKOUT if IS_CHECKOUT else _PACKAGE / "_bundled"

TEMPLATES: Final[Path] = _ROOT / "templates"
STATIC: Final[Path] = _ROOT / "static"
WORKED_EXAMPLES: Final[Path] = _ROOT / "worked_examples"
MODEL_WEIGHTS: Final[Path] = _ROOT / "model_weights"
VENDOR: Final[Path] = _ROOT / "node_modules"
"""Laid out as npm does: `VENDOR / "htmx.org" / "dist" / "htmx.min.js"`."""
