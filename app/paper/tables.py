"""The paper's configurations and results, Tables 2 to 4, each with where it is printed.

Table 1 is in `cost`, since it is formulas. Where the versions of the paper differ both figures are
here, and whoever shows one says which. Scores are comparable only under their own data,
tokenisation, checkpoint averaging and decoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROCEEDINGS: Final = "NeurIPS 30 (2017), the conference version"
ARXIV_V7: Final = "arXiv:1706.03762v7"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One of the paper's models and how it was trained: sections 3, 5 and 6."""

    name: str
    N: int
    d_model: int
    d_ff: int
    h: int
    d_k: int
    d_v: int
    dropout: float
    label_smoothing: float
    train_steps: int
    seconds_a_step: float
    params_millions: int
    averaged_checkpoints: int


BASE: Final = Configuration(
    "base", 6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 0.4, 65, averaged_checkpoints=5
)
BIG: Final = Configuration(
    "big", 6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300_000, 1.0, 213, averaged_checkpoints=20
)
BIG_DROPOUT_EN_FR: Final = 0.1
"""The big model's dropout for English to French (section 6.1)."""

ADAM: Final = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}
"""Section 5.3."""

BEAM_SIZE: Final = 4
LENGTH_PENALTY_ALPHA: Final = 0.6
MAX_EXTRA_LENGTH: Final = 50
"""Section 6.1: a translation is at most this much longer than its source, in tokens."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A row of Table 2: tokenised BLEU on newstest2014; None where the paper gives no figure."""

    model: str
    en_de: float | None = None
    en_fr: float | None = None
    en_fr_arxiv_v7: float | None = None
    """Only where it differs from the proceedings."""
    flops_en_de: float | None = None
    flops_en_fr: float | None = None
    ensemble: bool = False


TABLE_2: Final = (
    Translation("ByteNet", en_de=23.75),
    Translation("Deep-Att + PosUnk", en_fr=39.2, flops_en_fr=1.0e20),
    Translation("GNMT + RL", 24.6, 39.92, flops_en_de=2.3e19, flops_en_fr=1.4e20),
    Translation("ConvS2S", 25.16, 40.46, flops_en_de=9.6e18, flops_en_fr=1.5e20),
    Translation("MoE", 26.03, 40.56, flops_en_de=2.0e19, flops_en_fr=1.2e20),
    Translation("Deep-Att + PosUnk", en_fr=40.4, flops_en_fr=8.0e20, ensemble=True),
    Translation("GNMT + RL", 26.30, 41.16, None, 1.8e20, 1.1e21, ensemble=True),
    Translation("ConvS2S", 26.36, 41.29, None, 7.7e19, 1.2e21, ensemble=True),
    Translation("Transformer (base)", 27.3, 38.1, flops_en_de=3.3e18, flops_en_fr=3.3e18),
    Translation("Transformer (big)", 28.4, 41.0, 41.8, flops_en_de=2.3e19, flops_en_fr=2.3e19),
)
TABLE_2_SOURCE: Final = (
    f"Table 2, {PROCEEDINGS}. {ARXIV_V7} prints 41.8 for the big model from English to French in "
    "its table and abstract, while its section 6.1 still says 41.0."
)


@dataclass(frozen=True, slots=True)
class Variation:
    """A row of Table 3: the base model with one thing changed, on newstest2013."""

    row: str
    """`base`, `A` to `E`, `big`."""
    changed: tuple[tuple[str, int | float | str], ...]
    """Name and value of what differs from the base model."""
    ppl: float
    """Perplexity a word piece, not a word."""
    bleu: float
    params_millions: int | None
    """None where the paper leaves it out because it is about the base model's."""


def _variation(
    row: str, ppl: float, bleu: float, params: int | None = None, **changed: int | float | str
) -> Variation:
    return Variation(row, tuple(changed.items()), ppl, bleu, params)


TABLE_3: Final = (
    _variation("base", 4.92, 25.8, 65),
    _variation("A", 5.29, 24.9, h=1, d_k=512, d_v=512),
    _variation("A", 5.00, 25.5, h=4, d_k=128, d_v=128),
    _variation("A", 4.91, 25.8, h=16, d_k=32, d_v=32),
    _variation("A", 5.01, 25.4, h=32, d_k=16, d_v=16),
    _variation("B", 5.16, 25.1, 58, d_k=16),
    _variation("B", 5.01, 25.4, 60, d_k=32),
    _variation("C", 6.11, 23.7, 36, N=2),
    _variation("C", 5.19, 25.3, 50, N=4),
    _variation("C", 4.88, 25.5, 80, N=8),
    _variation("C", 5.75, 24.5, 28, d_model=256, d_k=32, d_v=32),
    _variation("C", 4.66, 26.0, 168, d_model=1024, d_k=128, d_v=128),
    _variation("C", 5.12, 25.4, 53, d_ff=1024),
    _variation("C", 4.75, 26.2, 90, d_ff=4096),
    _variation("D", 5.77, 24.6, dropout=0.0),
    _variation("D", 4.95, 25.5, dropout=0.2),
    _variation("D", 4.67, 25.3, label_smoothing=0.0),
    _variation("D", 5.47, 25.7, label_smoothing=0.2),
    _variation("E", 4.92, 25.7, positions="learned"),
    _variation("big", 4.33, 26.4, 213, N=6, d_model=1024, d_ff=4096, h=16, dropout=0.3),
)
TABLE_3_SOURCE: Final = (
    "Table 3: newstest2013, the development set, with beam search and without checkpoint "
    "averaging; perplexities are per word piece."
)


@dataclass(frozen=True, slots=True)
class Parsing:
    """A row of Table 4: F1 of constituency parsing on section 23 of the Wall Street Journal."""

    training: str
    f1: float


TABLE_4: Final = (
    Parsing("WSJ only, about 40,000 sentences", 91.3),
    Parsing("semi-supervised, about 17 million sentences", 92.7),
)
TABLE_4_SOURCE: Final = f"Table 4, {ARXIV_V7} only; a Transformer of 4 layers with d_model = 1024."
