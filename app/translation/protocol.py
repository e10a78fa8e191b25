"""What a page may ask of a translator, and what it gets: plain values and NumPy arrays, no torch.

`Translator` is the border. Pages, panels and the API know this module only. service.py answers with
the models of model_weights/; another process could as well.

Positions, layers and heads count from 0 here; pages count them from 1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

TokenKind = Literal["text", "byte", "start", "end", "pad", "unknown"]
AttentionKind = Literal["encoder", "decoder", "cross"]
Fate = Literal["kept", "finished", "dropped"]


# What can go wrong. Every message is a sentence for the reader.


class TranslatorError(Exception):
    """Why there is no answer; `message` says it to the reader."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(TranslatorError):
    """Something to put right; `field` names it: text, model, beam_size, alpha, target …"""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NothingToTranslate(BadRequest):
    """A blank text: not a mistake, but nothing to do either."""

    def __init__(self) -> None:
        super().__init__("text", "Type an English sentence to see it translated.")


class TooLong(BadRequest):
    """More characters or tokens than the limit."""

    def __init__(self, found: int, limit: int, unit: str) -> None:
        super().__init__(
            "text",
            f"That is {found:,} {unit}; at most {limit:,} are translated. Shorten the text, "
            "or translate it in parts.",
        )
        self.found, self.limit, self.unit = found, limit, unit


class Unavailable(TranslatorError):
    """Not now: `retry_after` says in how many seconds to ask again."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Busy(Unavailable):
    """The queue is full, or the request waited longer than its deadline."""

    def __init__(
        self,
        message: str = (
            "Many translations are waiting at this moment. Please try again in a few seconds."
        ),
        retry_after: int = 5,
    ) -> None:
        super().__init__(message, retry_after)


class NotReady(Unavailable):
    """The model is still loading, or could not be loaded."""

    def __init__(
        self,
        message: str = "The model is still being loaded. Please try again in a few seconds.",
        retry_after: int = 3,
    ) -> None:
        super().__init__(message, retry_after)


# Limits and models


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask, and how many may wait."""

    characters: int = 500  # of the text; about five long sentences
    tokens: int = 128  # of one sentence, END included
    beam_size: int = 8  # twice the paper's
    alpha: float = 2.0  # beyond, length alone decides
    waiting: int = 32  # requests in the queue; more get Busy
    batch: int = 16  # sentences translated together
    seconds: float = 20.0  # from asking to the answer; then Busy


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that can be chosen, ready or not."""

    name: str  # "en-de": its folder in model_weights/
    source: str  # "English"
    target: str  # "German"
    state: Literal["loading", "ready", "failed"]
    problem: str = ""  # why it failed, for the reader
    # of a ready model:
    digest: str = ""  # SHA-256 of its weights
    N_encoder: int = 0
    N_decoder: int = 0
    h: int = 0
    d_model: int = 0
    d_ff: int = 0
    vocab_size: int = 0
    parameters: int = 0


# Tokens


@dataclass(frozen=True, slots=True)
class Token:
    """One token, as it is and as it may be shown."""

    id: int
    text: str  # the piece: "▁" is the space before a word, bytes are "<0xF0>"; never empty
    kind: TokenKind  # tells END from the text "</s>" that somebody typed
    character: str = (
        ""  # of a byte: the character that it is a part of, if the bytes around make one
    )


# Translations


@dataclass(frozen=True, slots=True)
class Interventions:
    """What to do differently from the paper; the defaults change nothing."""

    causal: bool = True  # False: every target position may attend to all the others
    scaled: bool = True  # False: no division by √d_k
    positions: bool = True  # False: no sinusoids, so that order is invisible
    silenced: frozenset[tuple[AttentionKind, int, int]] = frozenset()  # (kind, layer, head)

    @property
    def any(self) -> bool:
        """Whether anything is done differently."""
        return self != Interventions()


@dataclass(frozen=True, slots=True)
class Options:
    """How to translate; the defaults are the paper's (§6.1)."""

    model: str = "en-de"
    beam_size: int = 4  # 1 is greedy search
    alpha: float = 0.6  # of the length penalty
    history: bool = False  # with every candidate that the search looked at
    interventions: Interventions = Interventions()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished translation of one sentence."""

    text: str
    tokens: tuple[Token, ...]  # END included when `ended`
    log_probs: tuple[float, ...]  # of each token
    log_prob: float  # their sum
    length_penalty: float  # lp(Y), |Y| = len(tokens)
    score: float  # log_prob / length_penalty
    ended: bool  # False: stopped by the length limit before END


@dataclass(frozen=True, slots=True)
class Candidate:
    """A continuation that the search looked at in one step."""

    parent: int  # which of the step before's kept candidates it continues, from 0 in their order
    token: Token
    token_log_prob: float
    log_prob: float  # of the hypothesis so far
    fate: Fate


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of the text, translated."""

    text: str
    source_tokens: tuple[Token, ...]  # END last
    hypotheses: tuple[Hypothesis, ...]  # best score first; at most beam_size
    history: tuple[tuple[Candidate, ...], ...] = ()  # a tuple a step, best candidate first


@dataclass(frozen=True, slots=True)
class Translation:
    """A text's translation, sentence by sentence and as a whole."""

    model: str
    digest: str
    text: str  # what was translated
    translation: str  # the best hypotheses' texts, joined
    sentences: tuple[Sentence, ...]
    seconds: float  # waiting and computing


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a translation stands."""

    sentence: int  # which of `sentences`, from 0
    sentences: int
    waiting: int  # requests ahead of it in the queue; 0 once it runs
    tokens: tuple[Token, ...]  # of the likeliest hypothesis so far; it may still change
    text: str


# Inside the model


@dataclass(frozen=True, slots=True)
class SublayerTrace:
    """x + Sublayer(x) and its LayerNorm (§3.1), at every position."""

    name: str  # "encoder.0.self_attention", "decoder.2.cross_attention", "decoder.2.feed_forward"
    output: Array  # (n, d_model): Sublayer(x)
    residual_sum: Array  # (n, d_model)
    mean: Array  # (n,) of the residual sum
    deviation: Array  # (n,) its population deviation, without epsilon
    layer_norm: Array  # (n, d_model)


@dataclass(frozen=True, slots=True)
class NextToken:
    """One entry of a next-token distribution."""

    token: Token
    probability: float


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that one pass over a source and a given target computed.

    Rows of every attention array are queries, columns are keys. `target_tokens` are what the
    decoder read: START, then the target without its last token; row t predicts token t of it.
    """

    model: str
    digest: str
    source_tokens: tuple[Token, ...]  # END last
    target_tokens: tuple[Token, ...]  # START first
    predicted: tuple[Token, ...]  # the target: what each position should predict
    interventions: Interventions
    encoder: Array  # (layer, h, n_src, n_src) weights
    decoder: Array  # (layer, h, n_tgt, n_tgt) weights
    cross: Array  # (layer, h, n_tgt, n_src) weights
    sublayers: Mapping[str, SublayerTrace]  # by name, in the order of computation
    log_probs: Array  # (n_tgt, vocab_size): the distribution for the next token at each position
    next_tokens: tuple[tuple[NextToken, ...], ...]  # the likeliest at each position, best first

    @property
    def log_prob(self) -> float:
        """Of the whole target."""
        rows = np.arange(len(self.predicted))
        ids = np.array([token.id for token in self.predicted], dtype=np.int64)
        return float(self.log_probs[rows, ids].astype(np.float64).sum())

    def attention(self, kind: AttentionKind) -> Array:
        """The weights of `kind`, (layer, h, queries, keys)."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]


@dataclass(frozen=True, slots=True)
class HeadImportance:
    """What the target's log-probability loses when one head is silenced."""

    kind: AttentionKind
    layer: int
    head: int
    log_prob: float  # of the target without the head
    change: float  # against the whole model; negative: the head helps


@dataclass(frozen=True, slots=True)
class CacheStep:
    """One token of a translation, computed with and without remembered keys and values."""

    position: int  # from 0
    token: Token
    positions_with: int  # positions that the decoder computed: 1
    positions_without: int  # position + 1
    multiply_adds_with: int
    multiply_adds_without: int
    seconds_with: float
    seconds_without: float
    largest_difference: float  # between the logits of the two
    bytes_cached: int  # keys and values remembered after this step, float32


# The border


class Translator(Protocol):
    """Answers questions about translations. Every method raises TranslatorError's kinds, no other.

    Coroutines never block the event loop; cancelling one gives its place up within a step.
    """

    @property
    def limits(self) -> Limits:
        """What may be asked; more is refused before anything is computed."""

    def models(self) -> tuple[ModelInfo, ...]:
        """All models, in the order of choice, whatever their state."""

    def tokenize(self, model: str, text: str) -> tuple[Token, ...]:
        """The tokens of a text, without START and END: to edit a target with."""

    async def translate(self, text: str, options: Options) -> Translation:
        """Translate a text of one or more sentences."""

    def stream(self, text: str, options: Options) -> AsyncGenerator[Progress | Translation, None]:
        """The same; first what is known so far, again and again, and last the Translation.

        Close it (`contextlib.aclosing`) to give the place up.
        """

    async def trace(
        self,
        model: str,
        source: Sequence[int],
        target: Sequence[int],
        interventions: Interventions = Interventions(),
    ) -> Trace:
        """Look inside, for the ids of one source sentence and of any target.

        The source gets its END if it lacks it; the target is taken as it is.
        """

    async def continued(
        self,
        model: str,
        source: Sequence[int],
        given: Sequence[int],
        most: int,
        interventions: Interventions = Interventions(),
    ) -> tuple[Token, ...]:
        """`given` and what the model writes after it, always taking the likeliest token.

        It ends with END, or at `most` tokens, those given among them.
        """

    async def head_importance(
        self, model: str, source: Sequence[int], target: Sequence[int]
    ) -> tuple[HeadImportance, ...]:
        """Silence each head once; the most important first."""

    async def cache_steps(
        self, model: str, source: Sequence[int], target: Sequence[int]
    ) -> tuple[CacheStep, ...]:
        """Write `target` token by token, with and without the key/value cache."""
