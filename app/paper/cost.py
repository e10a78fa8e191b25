"""What attention costs, section 4: Table 1 as numbers, the stored weights, parameters and FLOPs.

O-notation leaves constants out; `operations` leaves them out as the table does, the functions after
it count them. An operation is one multiplication with its addition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from app.paper.errors import RangeError

LayerName = Literal["self-attention", "recurrent", "convolutional", "restricted"]


@dataclass(frozen=True, slots=True)
class LayerType:
    """A row of Table 1: what a layer costs that maps n vectors of d numbers to n others."""

    name: LayerName
    title: str
    complexity: str
    """Operations a layer, in O-notation."""
    sequential: str
    """How many operations must wait for one another, at the least."""
    max_path: str
    """How many steps a signal takes between the two farthest positions, at the most."""


TABLE_1: Final = (
    LayerType("self-attention", "Self-attention", "O(n² · d)", "O(1)", "O(1)"),
    LayerType("recurrent", "Recurrent", "O(n · d²)", "O(n)", "O(n)"),
    LayerType("convolutional", "Convolutional", "O(k · n · d²)", "O(1)", "O(log_k(n))"),
    LayerType("restricted", "Self-attention (restricted)", "O(r · n · d)", "O(1)", "O(n/r)"),
)
"""Table 1: n positions, d coordinates, kernel width k, a neighbourhood of r positions."""

P100_FLOPS: Final = 9.5e12
"""What footnote 5 takes a P100 to sustain, in single-precision operations a second."""


def operations(layer: LayerName, n: int, d: int, k: int = 3, r: int = 64) -> int:
    """The first column of Table 1 as a number: operations a layer, without constant factors.

    Raises RangeError for a size below 1. A neighbourhood larger than n is all of n.

    >>> operations("self-attention", n=70, d=512), operations("recurrent", n=70, d=512)
    (2508800, 18350080)
    """
    _positive(n=n, d=d, k=k, r=r)
    return {
        "self-attention": n * n * d,
        "recurrent": n * d * d,
        "convolutional": k * n * d * d,
        "restricted": min(r, n) * n * d,
    }[layer]


def sequential(layer: LayerName, n: int) -> int:
    """The second column: operations that wait for one another. RangeError for n below 1 (no shape).

    >>> sequential("recurrent", 70), sequential("self-attention", 70)
    (70, 1)
    """
    _positive(n=n)
    return n if layer == "recurrent" else 1


def max_path(layer: LayerName, n: int, k: int = 3, r: int = 64) -> int:
    """The third column: steps between the farthest positions, a whole number of at least 1.

    Dilated convolutions for `convolutional`. Raises RangeError for a size below 1 and for k = 1,
    which never sees a neighbour.

    >>> [max_path(layer.name, n=1000, k=10, r=100) for layer in TABLE_1]
    [1, 1000, 3, 10]
    """
    _positive(n=n, r=r)
    if k < 2:
        raise RangeError(f"k: expected a kernel of at least 2 positions, got {k}")
    steps, reached = 1, k  # counted in whole numbers: a logarithm would round
    while reached < n:
        steps, reached = steps + 1, reached * k
    return {
        "self-attention": 1,
        "recurrent": n,
        "convolutional": steps,
        "restricted": math.ceil(n / min(r, n)),
    }[layer]


def attention_entries(n: int, h: int, m: int | None = None, N: int = 1) -> int:
    """How many weights h heads of N layers store for n queries and m keys (n where left out).

    >>> attention_entries(1024, 8)
    8388608
    """
    keys = n if m is None else m
    _positive(n=n, m=keys, h=h, N=N)
    return n * keys * h * N


def attention_bytes(n: int, h: int, bytes_each: int = 2, m: int | None = None, N: int = 1) -> int:
    """The memory of those weights (see `attention_entries`), in bytes; two each in half precision.

    >>> attention_bytes(1024, 8) / 2**20
    16.0
    """
    _positive(bytes_each=bytes_each)
    return attention_entries(n, h, m, N) * bytes_each


@dataclass(frozen=True, slots=True)
class SublayerCost:
    """Multiplications, each with its addition, of one encoder layer for n positions."""

    projections: int
    """Q, K, V and W_O: 4 · n · d_model²."""
    pairs: int
    """Scores and mixing: 2 · n² · d_model over all heads, whatever their number."""
    feed_forward: int
    """2 · n · d_model · d_ff."""

    @property
    def total(self) -> int:
        """All three."""
        return self.projections + self.pairs + self.feed_forward


def encoder_layer(n: int, d_model: int, d_ff: int) -> SublayerCost:
    """What one encoder layer costs for n positions (h · d_k = h · d_v = d_model).

    >>> cost = encoder_layer(n=1024, d_model=512, d_ff=2048)
    >>> cost.pairs == cost.projections
    True
    """
    _positive(n=n, d_model=d_model, d_ff=d_ff)
    return SublayerCost(4 * n * d_model**2, 2 * n * n * d_model, 2 * n * d_model * d_ff)


def parameters(N: int, d_model: int, d_ff: int, vocabulary: int) -> int:
    """The number of weights of the model of section 3, with one embedding matrix for all three
    uses.

    (N encoder and N decoder layers; the feed-forward network and LayerNorm have offsets, the
    projections of attention do not, as the paper's formulas have it.)

    >>> round(parameters(N=6, d_model=512, d_ff=2048, vocabulary=37_000) / 1e6)
    63
    """
    _positive(N=N, d_model=d_model, d_ff=d_ff, vocabulary=vocabulary)
    attention = 4 * d_model**2
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    layer_norm = 2 * d_model
    encoder = attention + feed_forward + 2 * layer_norm
    decoder = 2 * attention + feed_forward + 3 * layer_norm
    return N * (encoder + decoder) + vocabulary * d_model


def training_flops(seconds: float, devices: int, sustained: float = P100_FLOPS) -> float:
    """Table 2's estimate of a training's cost: time × devices × what each sustains (a number of
    FLOPs).

    >>> f"{training_flops(12 * 3600, 8):.1e}"
    '3.3e+18'
    """
    if not seconds > 0 or not sustained > 0:
        raise RangeError(f"seconds and sustained: expected above 0, got {seconds}, {sustained}")
    _positive(devices=devices)
    return seconds * devices * sustained


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise RangeError(f"{name}: expected at least 1, got {size}")
