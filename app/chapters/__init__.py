"""The table of contents. A chapter's place in the tuple is its place in the book."""

from __future__ import annotations

from typing import Any

from app.chapters.contract import Chapter

CHAPTERS: tuple[Chapter[Any], ...] = ()
