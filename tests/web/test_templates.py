"""Templates: everything is escaped, and a name that nobody defined is an error."""

from __future__ import annotations

from pathlib import Path

import markupsafe
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from app.web.templates import Templates, escape

SOURCES = {
    "macros/box.html": "{% macro box(text) %}<b>{{ text }}</b>{% endmacro %}",
    "base.html": "[{% block body %}{% endblock %}]",
    "page.html": '{% extends "base.html" %}{% block body %}'
    '<i title="{{ text }}">{{ ui.box.box(text) }}'
    '{{ [text]|join(", ") }}{{ text|upper }}</i>{% endblock %}',
    "missing.html": "{% block body %}{{ nobody }}{% endblock %}",
    "deep.html": "{% block body %}{{ text.nobody }}{% endblock %}",
}


@pytest.fixture(params=[False, True], ids=["serving", "writing"])
def templates(tmp_path: Path, request: pytest.FixtureRequest) -> Templates:
    for name, source in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return Templates({}, folders=(tmp_path,), reload=request.param)


@given(st.text() | st.integers() | st.floats() | st.none() | st.just(Markup("<b>&amp;</b>")))
def test_escape_is_markupsafes(value: object) -> None:
    assert escape(value) == markupsafe.escape(value)


@pytest.mark.parametrize(
    "text", ["a<b </s> 😀 ä & # \"q\" '{{7*7}}' <img src=x onerror=alert(1)>", "plain", "\ud800"]
)
def test_text_is_shown_literally(templates: Templates, text: str) -> None:
    shown = str(markupsafe.escape(text))
    loud = str(markupsafe.escape(text.upper()))
    block = f'<i title="{shown}"><b>{shown}</b>{shown}{loud}</i>'
    assert templates.page("page.html", {"text": text}) == f"[{block}]"
    assert templates.block("page.html", "body", {"text": text}) == block


def test_a_block_alone_knows_its_context_and_nothing_else(templates: Templates) -> None:
    for name in ("missing.html", "deep.html"):
        with pytest.raises(UndefinedError, match="nobody"):
            templates.block(name, "body", {"text": "x"})
    assert templates.block("page.html", "other", {}) == ""


def test_a_changed_template_is_seen_while_writing(tmp_path: Path) -> None:
    import os

    (tmp_path / "macros").mkdir()
    page, macro = tmp_path / "page.html", tmp_path / "macros" / "box.html"
    page.write_text("{{ ui.box.box() }}")
    macro.write_text("{% macro box() %}one{% endmacro %}")
    templates = Templates({}, folders=(tmp_path,), reload=True)
    assert templates.page("page.html", {}) == "one"
    macro.write_text("{% macro box() %}two{% endmacro %}")
    os.utime(macro, (1, 1))
    assert templates.page("page.html", {}) == "two"
