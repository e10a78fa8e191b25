"""Jinja, set up once: escaping everywhere, undefined names are errors, blocks rendered alone.

A block rendered alone sees neither `{% set %}` nor `{% import %}` of its template. So everything
comes from the context, and the macros of `templates/macros/<file>.html` are global as
`ui.<file>.<macro>`.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import markupsafe
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, nodes
from jinja2.compiler import CodeGenerator, Frame
from markupsafe import Markup

from app import paths

# MarkupSafe's compiled inner part has no public name; the standard library does the same, slower.
_escape_text: Callable[[str], str] = getattr(markupsafe, "_escape_inner", html.escape)


def escape(value: Any) -> str:
    """`value` as text for HTML, safe in elements and quoted attributes.

    >>> escape("a < b"), escape(Markup("<b>")), escape(3)
    ('a &lt; b', '<b>', '3')

    MarkupSafe's own `escape` makes a `Markup` of every piece, which for the two thousand pieces of
    a panel takes as long as everything else together; pieces that are only joined can stay plain
    text.
    """
    kind = type(value)
    if kind is str:
        return _escape_text(value)
    if kind is Markup:
        ready: str = value
        return ready
    return markupsafe.escape(value)


class _Code(CodeGenerator):
    """Jinja's code generator, with our `escape` around what a template writes."""

    def _output_child_pre(
        self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo
    ) -> None:
        if frame.eval_ctx.autoescape and not frame.eval_ctx.volatile and finalize.src is None:
            self.write("environment.escape(")
        else:
            super()._output_child_pre(node, frame, finalize)


class _Environment(Environment):
    code_generator_class = _Code
    escape = staticmethod(escape)


class Templates:
    """The project's templates."""

    def __init__(
        self,
        helpers: Mapping[str, Any],
        *,
        folders: tuple[Path, ...] = (paths.TEMPLATES,),
        reload: bool = False,
        before: Callable[[], None] | None = None,
    ) -> None:
        """`helpers` are global in every template; `before` runs before each rendering under
        `reload`.
        """
        self._reload = reload
        self._before = before
        self.environment = _Environment(
            loader=FileSystemLoader(folders),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=reload,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            cache_size=-1,
        )
        self.environment.globals.update(helpers)
        self.environment.globals["ui"] = _LiveMacros(self.environment)
        if not reload:
            self.environment.globals["ui"] = SimpleNamespace(
                **{
                    name.removeprefix("macros/").removesuffix(".html"): self._template(name).module
                    for name in self.environment.list_templates(extensions=["html"])
                    if name.startswith("macros/")
                }
            )

    def page(self, name: str, context: Mapping[str, Any]) -> str:
        """A whole template."""
        return self._template(name).render(context)

    def block(self, name: str, block: str, context: Mapping[str, Any]) -> Markup:
        """One block of a template, alone; nothing if the template itself does not define it."""
        template = self._template(name)
        render = template.blocks.get(block)
        return Markup("".join(render(template.new_context(dict(context)))) if render else "")

    def _template(self, name: str) -> Template:
        if self._reload and self._before is not None:
            self._before()
        return self.environment.get_template(name)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every template there is."""
        return frozenset(self.environment.list_templates())


class _LiveMacros:
    """`ui` while templates are being written: looks the file up at each use."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._environment.get_template(f"macros/{name}.html").module
