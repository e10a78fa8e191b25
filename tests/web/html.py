"""What the tests ask of rendered HTML, with the standard library's parser."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta"})
VOID |= {"source", "track", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Document:
    """Every element in order, and what was not well nested."""

    elements: list[Element] = field(default_factory=list)
    misnested: list[str] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def values(self, *names: str) -> list[str]:
        """Every value of the attributes `names`."""
        return [e.attributes[name] for e in self.elements for name in names if name in e.attributes]

    def text_of_all(self) -> str:
        """Every piece of text, in the order of the elements."""
        return "\n".join(element.text for element in self.elements)

    @property
    def ids(self) -> list[str]:
        return self.values("id")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.document = Document()
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.document.elements.append(element)
        if len(attrs) != len(element.attributes):
            self.document.misnested.append(f"<{tag}> names an attribute twice")
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop().tag != tag:
            self.document.misnested.append(f"</{tag}> at line {self.getpos()[0]}")

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data


def read(text: str) -> Document:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.document


def assert_clean(text: str, answer: Any = None) -> Document:
    """No inline script, style or handler; unique ids; well nested. Returns the document."""
    document = read(text)
    assert not document.misnested, document.misnested[:5]
    for element in document.elements:
        where = f"<{element.tag} {element.attributes}>"
        assert "style" not in element.attributes, f"inline style: {where}"
        handlers = [n for n in element.attributes if n.startswith(("on", "hx-on"))]
        assert not handlers, f"inline handler: {where}"
        if element.tag == "script":
            data = element.attributes.get("type") in ("application/json", "application/ld+json")
            assert data or not element.text.strip(), f"inline script: {where}"
        assert element.tag != "style", f"inline stylesheet: {where}"
        for name in ("href", "src", "action"):
            value = element.attributes.get(name, "").strip().lower()
            assert not value.startswith(("javascript:", "data:text")), where
    known = Counter(document.ids)
    twice = sorted(name for name, count in known.items() if count > 1)
    assert not twice, f"ids used twice: {twice[:5]}"
    for element in document.elements:
        for name in ("for", "aria-labelledby", "aria-describedby", "aria-controls", "headers"):
            for target in element.attributes.get(name, "").split():
                assert target in known, f"{name}={target!r} points nowhere in <{element.tag}>"
    return document
