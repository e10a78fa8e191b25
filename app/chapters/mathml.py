"""Presentation MathML (the Core subset that all browsers draw), written by hand and escaped here.

Every function takes and returns `Markup`, so that nothing reaches a page unescaped. Roles are class
names: `role-query`, `role-key`, `role-value`, `role-weight` colour what they stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from markupsafe import Markup, escape

from app.chapters import numbers

Role = Literal["query", "key", "value", "weight"]
Relation = Literal["=", "≈"]


def identifier(text: str, role: Role | None = None) -> Markup:
    """A name: `x`, `W`, `LayerNorm`.

    >>> identifier("q", "query")
    Markup('<mi class="role-query">q</mi>')
    """
    return _element("mi", escape(text), role)


def operator(text: str) -> Markup:
    """A sign between two things: `+`, `×`, `=`."""
    return _element("mo", escape(text))


def words(text: str) -> Markup:
    """Words inside a formula."""
    return _element("mtext", escape(text))


def space() -> Markup:
    """A thin space, as between max and its argument."""
    return Markup('<mspace width="0.17em"></mspace>')


def digits(text: str) -> Markup:
    """Digits that are no calculated number, such as an index."""
    return _element("mn", escape(text))


def row(*items: Markup, role: Role | None = None) -> Markup:
    """Things side by side, as one."""
    return _element("mrow", Markup("".join(items)), role)


def fraction(above: Markup, below: Markup) -> Markup:
    """A fraction."""
    return _element("mfrac", above + below)


def root(inside: Markup) -> Markup:
    """A square root."""
    return _element("msqrt", inside)


def power(base: Markup, exponent: Markup) -> Markup:
    """A power."""
    return _element("msup", base + exponent)


def e_to(exponent: Markup) -> Markup:
    """A power of e."""
    return power(identifier("e"), exponent)


def squared(inside: Markup) -> Markup:
    """The square of something, which gets brackets."""
    return power(row(bracket("("), inside, bracket(")")), digits("2"))


def function(name: Markup, *arguments: Markup) -> Markup:
    """A function of its arguments, in brackets with commas.

    >>> function(identifier("max"), digits("1"), digits("2")).count("<mo>,</mo>")
    1
    """
    return row(name, bracket("("), *_joined(list(arguments), operator(",")), bracket(")"))


def below(base: Markup, under: Markup) -> Markup:
    """An index below and to the right of something."""
    return _element("msub", base + under)


def underneath(base: Markup, under: Markup) -> Markup:
    """An index right below something, as the j below a maximum."""
    return _element("munder", base + under)


def indexed(name: str, *indices: int | str, role: Role | None = None, above: str = "") -> Markup:
    """A name with indices below and perhaps something above: q with 3, 1; W with O above.

    >>> indexed("μ", 3)
    Markup('<msub><mi>μ</mi><mn>3</mn></msub>')
    """
    marks = [
        digits(str(index)) if isinstance(index, int) else identifier(index) for index in indices
    ]
    under = marks[0] if len(marks) == 1 else row(*_joined(marks, _element("mo", escape(","))))
    base = identifier(name)
    if above and indices:
        return _element("msubsup", base + under + _above(above), role)
    if above:
        return _element("msup", base + _above(above), role)
    return _element("msub", base + under, role) if indices else identifier(name, role)


def number(value: float, role: Role | None = None, bracketed: bool = False) -> Markup:
    """A calculated number with six decimals at most; in brackets where asked and negative.

    >>> number(-0.5)
    Markup('<mrow><mo form="prefix">−</mo><mn>0.5</mn></mrow>')
    """
    text, exponent = numbers.parts(value)
    negative = text.startswith("-")
    items = [digits(text.removeprefix("-"))]
    if exponent is not None:
        sign = [_prefix_minus()] if exponent < 0 else []
        raised = row(*sign, digits(str(abs(exponent))))
        items += [operator("×"), power(digits("10"), raised)]
    if negative:
        items.insert(0, _prefix_minus())
    if negative and bracketed:
        items = [bracket("("), *items, bracket(")")]
    return row(*items, role=role) if len(items) > 1 or role else items[0]


def bracket(text: str) -> Markup:
    """One bracket that keeps the height of a line."""
    return Markup(f'<mo stretchy="false">{escape(text)}</mo>')


def total(terms: Iterable[Markup]) -> Markup:
    """Terms with plus signs between them."""
    return row(*_joined(list(terms), operator("+")))


def summed(over: str, term: Markup) -> Markup:
    """The sum sign with its index below, and the term."""
    return row(underneath(operator("∑"), identifier(over)), term)


def steps(left: Markup, lines: Sequence[tuple[Relation, Markup]]) -> Markup:
    """A whole formula: what is calculated, then line by line what it equals.

    The cells have the classes `lhs`, `relation` and `rhs` for the style sheet to align.
    """
    rows = ""
    for place, (relation, right) in enumerate(lines):
        rows += (
            f'<mtr><mtd class="lhs">{left if place == 0 else ""}</mtd>'
            f'<mtd class="relation">{operator(relation)}</mtd>'
            f'<mtd class="rhs">{right}</mtd></mtr>'
        )
    return Markup(
        f'<math display="block"><mtable class="steps" displaystyle="true">{rows}</mtable></math>'
    )


def _above(text: str) -> Markup:
    return _element("mtext" if len(text) > 1 else "mi", escape(text))


def _prefix_minus() -> Markup:
    return Markup('<mo form="prefix">−</mo>')


def _joined(items: list[Markup], between: Markup) -> list[Markup]:
    return [part for item in items for part in (between, item)][1:]


def _element(name: str, content: Markup, role: Role | None = None) -> Markup:
    """An element around content that is escaped already, as its type says."""
    attribute = f' class="role-{role}"' if role else ""
    return Markup(f"<{name}{attribute}>{content}</{name}>")
