"""Where the files that are not Python live: in the checkout, or inside the installed wheel.

A checkout has `templates/` and the rest beside `app/`. A wheel carries the same folders, and the
npm files that the pages need, in `app/_bundled/` (`hatch_build.py` puts them there). Nothing else
in the application may guess a location.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent
_BUNDLED: Final = _PACKAGE / "_bundled"
_ROOT: Final = _BUNDLED if _BUNDLED.is_dir() else _PACKAGE.parent

TEMPLATES: Final[Path] = _ROOT / "templates"
STATIC: Final[Path] = _ROOT / "static"
WORKED_EXAMPLES: Final[Path] = _ROOT / "worked_examples"
MODEL_WEIGHTS: Final[Path] = _ROOT / "model_weights"
VENDOR: Final[Path] = _ROOT / "node_modules"
"""Laid out as npm does: `VENDOR / "htmx.org" / "dist" / "htmx.min.js"`."""
