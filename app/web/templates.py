"""Jinja, set up once: escaping everywhere, undefined names are errors, blocks rendered alone.

A block rendered alone sees neither `{% set %}` nor `{% import %}` of its template. So everything
comes from the context, and the macros of `templates/macros/<file>.html` are global as
`ui.<file>.<macro>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from app import paths


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
        self.environment = Environment(
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
