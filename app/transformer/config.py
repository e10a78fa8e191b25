"""The sizes of a Transformer, and the presets: the paper's two and the ones trained here."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


class ConfigError(ValueError):
    """A configuration that describes no Transformer; the message names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """What fixes the shape of the model. The defaults are the paper's base model (Table 3)."""

    vocab_size: int  # tokens shared by source, target and output (§5.1)
    d_model: int = 512  # width of the residual stream; h must divide it
    N_encoder: int = 6  # layers of the encoder; the paper's N. Cheap at translation time: run once
    N_decoder: int = (
        6  # layers of the decoder; the paper's N. Costly at translation time: run per token
    )
    h: int = 8  # heads; d_k = d_v = d_model / h, as in the paper
    d_ff: int = 2048  # inner width of the feed-forward network, four times d_model in the paper
    dropout: float = (
        0.1  # on every sub-layer's output and on the sums of embedding and position (§5.4)
    )
    max_len: int = 512  # longest sequence; sinusoids have no limit, memory has
    activation: str = "relu"  # of the feed-forward network; Marian's models use "swish"
    output_bias: bool = False  # a bias on the logits, as Marian's models have; the paper has none
    layer_norm_epsilon: float = 1e-5  # inside the root; the paper names none, 1e-5 is customary
    pad_id: int = 0  # the four special tokens of our vocabularies
    unk_id: int = 1
    bos_id: int = 2  # START
    eos_id: int = 3  # END

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "h", "d_ff", "max_len"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} = {value!r}: a whole number of at least 1 is needed")
        for name in ("N_encoder", "N_decoder"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} = {value!r}: at least one layer is needed")
        if self.d_model % self.h:
            raise ConfigError(f"d_model = {self.d_model} is not divisible by h = {self.h} heads")
        if self.d_model % 2:
            raise ConfigError(f"d_model = {self.d_model} is odd: sines and cosines come in pairs")
        if self.activation not in ("relu", "swish"):
            raise ConfigError(f"activation = {self.activation!r}: relu or swish")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout = {self.dropout}: from 0 up to, but not including, 1")
        if not self.layer_norm_epsilon > 0:
            raise ConfigError(f"layer_norm_epsilon = {self.layer_norm_epsilon}: above 0")
        special = (self.pad_id, self.unk_id, self.bos_id, self.eos_id)
        if any(not 0 <= token < self.vocab_size for token in special):
            raise ConfigError(f"special tokens {special} lie outside the {self.vocab_size} tokens")

    @property
    def d_k(self) -> int:
        """Width of a head's queries and keys.

        >>> TransformerConfig(vocab_size=100).d_k
        64
        """
        return self.d_model // self.h

    @property
    def d_v(self) -> int:
        """Width of a head's values; the paper takes d_v = d_k."""
        return self.d_model // self.h

    def to_dict(self) -> dict[str, Any]:
        """As config.json holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TransformerConfig:
        """From config.json; ConfigError names what is unknown or missing."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(f"unknown: {', '.join(unknown)}")
        if "vocab_size" not in values:
            raise ConfigError("vocab_size is missing")
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(str(error)) from error

    def to_json(self) -> str:
        """The text of config.json."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


def preset(name: str, vocab_size: int, **changes: Any) -> TransformerConfig:
    """A named configuration, with fields changed at will.

    >>> preset("big", vocab_size=37_000).d_ff
    4096
    """
    try:
        values = PRESETS[name]
    except KeyError:
        raise ConfigError(f"preset {name!r}: one of {', '.join(PRESETS)}") from None
    return replace(TransformerConfig(vocab_size=vocab_size, **values), **changes)


PRESETS: dict[str, dict[str, Any]] = {
    # Table 3, row "base"
    "base": {},
    # Table 3, row "big"; dropout 0.1 for English to French
    "big": {"d_model": 1024, "h": 16, "d_ff": 4096, "dropout": 0.3},
    # trains in hours on two CPU cores
    "small": {"d_model": 256, "h": 4, "d_ff": 1024, "N_encoder": 3, "N_decoder": 3},
    # for tests: every mechanism, no quality
    "tiny": {"d_model": 32, "h": 2, "d_ff": 64, "N_encoder": 2, "N_decoder": 2, "max_len": 64},
}
