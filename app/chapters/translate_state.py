"""The state of the translation chapter: what its URL may say, and how that is understood.

A form sends a checkbox grid field by field (`silence=cross.1.2&silence=cross.3.4`), a link writes
it in one (`silence=cross.1.2,cross.3.4`); both mean the same. Layers, heads and positions count
from 1.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl, quote

from app.chapters.contract import Parsed, Problem
from app.chapters.three_positions_state import read_number, write_number
from app.translation.protocol import AttentionKind, Interventions, Limits, Options

DEFAULT_TEXT: Final = "The children are playing in the garden."
DEFAULT_MODEL: Final = "en-de"
MODELS: Final = {"en-de": ("English", "German"), "en-fr": ("English", "French")}
"""What is shipped; a translator may have others."""

KINDS: Final[tuple[AttentionKind, ...]] = ("encoder", "decoder", "cross")
SUBLAYERS: Final = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
MOST: Final = 999  # of a layer, head or position in a URL; what there is of them is known later
_LONGEST_VALID: Final = 2_400  # characters of the canonical query that a form carries along
_SHOWN: Final = 60  # characters of a refused value that an error repeats


@dataclass(frozen=True, slots=True, order=True)
class Head:
    """One attention head; layer and number from 1."""

    kind: AttentionKind
    layer: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.number}"

    @property
    def index(self) -> tuple[AttentionKind, int, int]:
        """As the protocol counts it, from 0."""
        return self.kind, self.layer - 1, self.number - 1


@dataclass(frozen=True, slots=True)
class Parameters:
    """Everything that the chapter's URL holds; its fields have the URL's names and order."""

    text: str = DEFAULT_TEXT
    model: str = DEFAULT_MODEL
    beam_size: int = 4
    alpha: float = 0.6
    sentence: int = 1
    """Which sentence of the text is looked into."""
    hypothesis: int = 1
    """Which entry of its n-best list."""
    head: Head | None = None
    """The head whose table is open."""
    position: int = 1
    """The target position that is selected."""
    sublayer: str = ""
    """`decoder.3.feed_forward`; empty: the last of the decoder."""
    at: int = 0
    """The position in that sub-layer, of source or target; 0: `position`."""
    numbers: bool = False
    """Show the vectors there number by number."""
    of: Literal["before", "after"] = "before"
    """Look into the model as it is, or with the reader's changes."""
    mask: Literal["causal", "all"] = "causal"
    scaled: bool = True
    positions: bool = True
    silence: tuple[Head, ...] = ()
    edit: int = 0
    """The target position whose token is replaced; 0: none."""
    to: str = ""
    """The text whose tokens stand there instead."""
    to_id: int = 0
    """Or one token by its number, as the lists of likely tokens link it."""
    rank: bool = False
    """Silence each head once and rank them."""
    cache: bool = False
    """Write the translation with and without the key/value cache."""

    @property
    def options(self) -> Options:
        """How to translate, without the reader's interventions."""
        return Options(self.model, self.beam_size, self.alpha, history=True)

    @property
    def interventions(self) -> Interventions:
        """What the reader does differently from the paper."""
        return Interventions(
            causal=self.mask == "causal",
            scaled=self.scaled,
            positions=self.positions,
            silenced=frozenset(head.index for head in self.silence),
        )

    @property
    def edited(self) -> bool:
        """Whether a target token is replaced."""
        return bool(self.edit and (self.to or self.to_id))

    @property
    def asks(self) -> bool:
        """Whether there is anything to compare with the model as it is."""
        return self.edited or self.interventions.any


DEFAULT: Final = Parameters()


def write(parameters: Parameters) -> str:
    """The canonical query: declared order, defaults left out; "" for the default state."""
    return "&".join(
        f"{name}={quote(text, safe=',.-')}"
        for name, text in as_text(parameters).items()
        if text != _DEFAULT_TEXTS[name]
    )


def valid_field(parameters: Parameters) -> str | None:
    """What a form remembers as the last valid state; None where that would be too long."""
    query = write(parameters)
    return query if len(query) <= _LONGEST_VALID else None


def as_text(parameters: Parameters) -> dict[str, str]:
    """Every field in the canonical order, as a query writes it."""
    return {field.name: _written(getattr(parameters, field.name)) for field in fields(parameters)}


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return write_number(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


_DEFAULT_TEXTS: Final[Mapping[str, str]] = as_text(DEFAULT)


def parse(
    query: Sequence[tuple[str, str]],
    limits: Limits,
    models: Sequence[str] = tuple(MODELS),
    check: Callable[[Parameters], tuple[Problem, ...]] = lambda parameters: (),
) -> Parsed[Parameters]:
    """Understand decoded pairs; never raises. `check` says what else is wrong with what was read.

    Of several values for a field that takes one, the last counts. If anything is refused, the
    parameters are those of the hidden field `valid` (the last accepted query); without one, they
    are what was accepted, and the refused fields have their defaults.
    """
    reader = _Reader(query, limits, models)
    problems = (*reader.problems, *check(reader.parameters))
    if not problems:
        return Parsed(reader.parameters, (), reader.typed)
    valid = reader.last("valid")
    if valid is None:
        usual = {problem.field: getattr(DEFAULT, problem.field) for problem in problems}
        parameters = replace(reader.parameters, **usual)
    else:
        try:
            pairs = parse_qsl(valid[:4000], keep_blank_values=True)
        except ValueError:
            pairs = []
        parameters = _Reader(pairs, limits, models).parameters
    if check(parameters):
        parameters = DEFAULT
    return Parsed(parameters, problems, reader.typed)


class _Reader:
    """One pass over a query; what is refused is in `problems` and keeps its default."""

    def __init__(
        self, query: Iterable[tuple[str, str]], limits: Limits, models: Sequence[str]
    ) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in query:
            self._values.setdefault(name, []).append(value)
        self._limits = limits
        self.problems: list[Problem] = []
        self.typed: dict[str, tuple[str, ...]] = {
            name: (text,) for name, text in _DEFAULT_TEXTS.items()
        }
        self.parameters = Parameters(
            text=self._text(),
            model=self._choice("model", models),
            beam_size=self._whole("beam_size", 1, limits.beam_size),
            alpha=self._alpha(),
            sentence=self._whole("sentence", 1, MOST),
            hypothesis=self._whole("hypothesis", 1, limits.beam_size),
            head=self._head(),
            position=self._whole("position", 1, MOST),
            sublayer=self._sublayer(),
            at=self._whole("at", 0, MOST),
            numbers=self._flag("numbers"),
            of=cast('Literal["before", "after"]', self._choice("of", ("before", "after"))),
            mask=cast('Literal["causal", "all"]', self._choice("mask", ("causal", "all"))),
            scaled=self._flag("scaled"),
            positions=self._flag("positions"),
            silence=self._silence(),
            **self._edit(),
            rank=self._flag("rank"),
            cache=self._flag("cache"),
        )

    def last(self, name: str) -> str | None:
        """The last value of a field, or None."""
        return self._values[name][-1] if name in self._values else None

    def _refuse(self, field: str, typed: str, message: str) -> None:
        self.problems.append(Problem(field, None, typed[:_SHOWN], message))

    def _text(self) -> str:
        value = self.last("text")
        if value is None:
            return DEFAULT.text
        value = value.replace("\r\n", "\n").replace("\r", "\n")
        self.typed["text"] = (value,)
        message = refused_characters(value)
        if len(value) > self._limits.characters:
            message = (
                f"That is {len(value):,} characters; at most {self._limits.characters} are "
                "translated. Shorten the text, or translate it in parts."
            )
        if message:
            self._refuse("text", value, message)
            return DEFAULT.text
        return value if value.strip() else ""

    def _edit(self) -> dict[str, Any]:
        """The edited position and what stands there: a text rather than a token's number."""
        edit, to = self._whole("edit", 0, MOST), self._to()
        to_id = self._whole("to_id", 0, 9_999_999)
        return {"edit": edit, "to": to if edit else "", "to_id": 0 if to or not edit else to_id}

    def _to(self) -> str:
        value = (self.last("to") or "").strip()
        self.typed["to"] = (value,)
        message = refused_characters(value)
        if len(value) > 60:
            message = "At most 60 characters can stand for a token."
        if message:
            self._refuse("to", value, message)
            return ""
        return value

    def _choice(self, field: str, choices: Sequence[str]) -> str:
        value = self.last(field)
        if value is None:
            return _DEFAULT_TEXTS[field]
        self.typed[field] = (value,)
        if value not in choices:
            self._refuse(field, value, f"“{field}” can be {' or '.join(choices)}.")
            return _DEFAULT_TEXTS[field]
        return value

    def _flag(self, field: str) -> bool:
        return self._choice(field, ("true", "false")) == "true"

    def _whole(self, field: str, least: int, most: int) -> int:
        value = self.last(field)
        if value is None:
            return int(_DEFAULT_TEXTS[field])
        self.typed[field] = (value.strip()[:_SHOWN],)
        text = value.strip()
        if not re.fullmatch(r"\d{1,7}", text, re.ASCII) or not least <= int(text) <= most:
            self._refuse(field, value, f"“{field}” takes a whole number from {least} to {most:,}.")
            return int(_DEFAULT_TEXTS[field])
        return int(text)

    def _alpha(self) -> float:
        value = self.last("alpha")
        if value is None:
            return DEFAULT.alpha
        self.typed["alpha"] = (value.strip()[:_SHOWN],)
        number = read_number(value)
        if number is None or not 0 <= number <= self._limits.alpha:
            self._refuse(
                "alpha",
                value,
                f"α takes a number from 0 to {self._limits.alpha:g}, with a point for decimals, "
                "such as 0.6.",
            )
            return DEFAULT.alpha
        return number

    def _head(self) -> Head | None:
        value = self.last("head")
        if not value:
            return None
        self.typed["head"] = (value[:_SHOWN],)
        head = read_head(value)
        if head is None:
            self._refuse("head", value, f"“head” takes {_A_HEAD}.")
        return head

    def _silence(self) -> tuple[Head, ...]:
        values = [part for value in self._values.get("silence", ()) for part in value.split(",")]
        values = [value for value in values if value]
        self.typed["silence"] = tuple(value[:_SHOWN] for value in values)
        heads = {value: read_head(value) for value in values}
        for value, head in heads.items():
            if head is None:
                self._refuse(
                    "silence",
                    value,
                    f"“silence” takes {_A_HEAD}, several with commas between them.",
                )
                return ()
        return tuple(sorted({head for head in heads.values() if head is not None}, key=_order))

    def _sublayer(self) -> str:
        value = self.last("sublayer")
        if not value:
            return ""
        self.typed["sublayer"] = (value[:_SHOWN],)
        match = re.fullmatch(r"(encoder|decoder)\.([1-9]\d{0,2})\.([a-z_]+)", value, re.ASCII)
        if match is None or match[3] not in SUBLAYERS[match[1]]:
            self._refuse(
                "sublayer",
                value,
                "“sublayer” takes a stack, a layer from 1 and a sub-layer, such as "
                "decoder.3.cross_attention or encoder.1.feed_forward.",
            )
            return ""
        return value


_A_HEAD: Final = (
    "encoder, decoder or cross, a layer and a head, both counted from 1, such as cross.3.2"
)


def read_head(value: str) -> Head | None:
    """A head as a URL writes it.

    >>> read_head("cross.3.2")
    Head(kind='cross', layer=3, number=2)
    >>> read_head("cross.0.2")
    """
    match = re.fullmatch(r"(encoder|decoder|cross)\.([1-9]\d?)\.([1-9]\d?)", value, re.ASCII)
    if match is None:
        return None
    return Head(cast(AttentionKind, match[1]), int(match[2]), int(match[3]))


def refused_characters(text: str) -> str:
    """What is wrong with the characters of a text; "" if nothing is."""
    for character in text:
        category = unicodedata.category(character)
        if category == "Cs":
            return "The text holds half of a character; type it again."
        if category == "Cc" and character not in "\t\n\r":
            return (
                f"The text holds the control character U+{ord(character):04X}; "
                "type it again without it."
            )
    return ""


def _order(head: Head) -> tuple[int, int, int]:
    return KINDS.index(head.kind), head.layer, head.number
