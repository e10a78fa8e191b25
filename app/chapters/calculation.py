"""A worked example in memory, and the calculation that follows from it and the choices of a reader.

Everything a chapter shows of one multi-head attention sublayer with LayerNorm, section 3.2 and 3.1,
in float64, for any number of positions, coordinates and heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from app.paper import masks
from app.paper.arrays import Booleans, Floats, booleans, floats
from app.paper.attention import AttentionSteps
from app.paper.errors import PaperError, ShapeError
from app.paper.heads import multi_head
from app.paper.sublayers import residual

MaskName = Literal["causal", "all"]


@dataclass(frozen=True, slots=True)
class OutputProjection:
    """One choice of W_O."""

    name: str
    title: str
    note: str
    W_O: Floats
    """(h·d_v, d_model)."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Other inputs to try: the example's X with some rows replaced."""

    name: str
    title: str
    note: str
    X: Floats
    """(n, d_model), whole."""
    positions: tuple[int, ...]
    """The replaced rows, counted from 1."""


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """The numbers of one worked example; its arrays are read-only."""

    slug: str
    title: str
    summary: str
    section: str
    X: Floats
    """(n, d_model)."""
    W_Q: Floats
    """(h, d_model, d_k)."""
    W_K: Floats
    """(h, d_model, d_k)."""
    W_V: Floats
    """(h, d_model, d_v)."""
    output_projections: tuple[OutputProjection, ...]
    """At least one; the first is the default."""
    edits: tuple[Edit, ...]
    gamma: Floats
    """(d_model,)."""
    beta: Floats
    """(d_model,)."""
    epsilon: float

    @property
    def n(self) -> int:
        """How many positions."""
        return int(self.X.shape[0])

    @property
    def d_model(self) -> int:
        """How many coordinates a position has."""
        return int(self.X.shape[1])

    @property
    def h(self) -> int:
        """How many heads."""
        return int(self.W_Q.shape[0])

    @property
    def d_k(self) -> int:
        """How many coordinates a query and a key have."""
        return int(self.W_Q.shape[2])

    @property
    def d_v(self) -> int:
        """How many coordinates a value has."""
        return int(self.W_V.shape[2])

    def output_projection(self, name: str | None = None) -> OutputProjection:
        """The W_O called `name`, or the default; KeyError where there is none of that name."""
        if name is None:
            return self.output_projections[0]
        return {choice.name: choice for choice in self.output_projections}[name]

    def edit(self, name: str) -> Edit:
        """The edit called `name`; KeyError where there is none."""
        return {edit.name: edit for edit in self.edits}[name]


@dataclass(frozen=True, slots=True)
class Calculation:
    """Every number of the sublayer, from the inputs to the normalised rows."""

    example: WorkedExample
    X: Floats
    """(n, d_model)."""
    mask: str
    """`causal`, `all`, or `custom` for a mask that was given as an array."""
    allowed: Booleans
    """(n, n), True where the query's position may attend to the key's."""
    scaled: bool
    W_O: OutputProjection
    gamma: Floats
    beta: Floats
    epsilon: float
    heads: tuple[AttentionSteps, ...]
    concat: Floats
    """(n, h·d_v)."""
    output: Floats
    """concat · W_O, (n, d_model)."""
    residual_sum: Floats
    """X + output, (n, d_model)."""
    mean: Floats
    """(n,)."""
    variance: Floats
    """(n,)."""
    normalized: Floats
    """(residual_sum − mean) / √(variance + ε), (n, d_model)."""
    layer_norm: Floats
    """γ · normalized + β, (n, d_model)."""


def calculate(
    example: WorkedExample,
    X: ArrayLike | None = None,
    mask: MaskName | Booleans = "causal",
    scaled: bool = True,
    W_O: str | None = None,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    epsilon: float | None = None,
) -> Calculation:
    """The sublayer's numbers; what is left out is the example's. Sections 3.2.2 and 3.1.

    X (n, d_model), `mask` a name or (n, n) booleans with True = may attend, `W_O` the name of one
    of the example's output projections, gamma and beta (d_model,), epsilon > 0. Raises KeyError for
    an unknown W_O, and PaperError where a shape or a number does not fit.
    """
    # Adding 0 turns −0 into 0, so that the two ways of typing nothing are the same input.
    inputs = example.X if X is None else floats(X, "X") + 0.0
    if inputs.shape != example.X.shape:
        raise ShapeError(f"X: expected the shape {example.X.shape}, got {inputs.shape}")
    allowed = _allowed(mask, example.n)
    projection = example.output_projection(W_O)
    scale = example.gamma if gamma is None else floats(gamma, "gamma") + 0.0
    offset = example.beta if beta is None else floats(beta, "beta") + 0.0
    small = example.epsilon if epsilon is None else float(epsilon)
    joined = multi_head(
        inputs,
        inputs,
        inputs,
        example.W_Q,
        example.W_K,
        example.W_V,
        projection.W_O,
        allowed,
        scaled,
    )
    sublayer = residual(inputs, joined.output, scale, offset, small)
    return Calculation(
        example=example,
        X=inputs,
        mask=mask if isinstance(mask, str) else "custom",
        allowed=allowed,
        scaled=scaled,
        W_O=projection,
        gamma=np.broadcast_to(scale, (example.d_model,)),
        beta=np.broadcast_to(offset, (example.d_model,)),
        epsilon=small,
        heads=joined.heads,
        concat=joined.concat,
        output=joined.output,
        residual_sum=sublayer.residual_sum,
        mean=sublayer.mean,
        variance=sublayer.variance,
        normalized=sublayer.normalized,
        layer_norm=sublayer.layer_norm,
    )


def _allowed(mask: MaskName | Booleans, n: int) -> Booleans:
    if isinstance(mask, str):
        if mask == "causal":
            return masks.causal(n)
        if mask == "all":
            return masks.everything(n)
        raise PaperError(f'mask: expected "causal", "all" or booleans, got {mask!r}')
    array = booleans(mask, "mask")
    if array.shape != (n, n):
        raise ShapeError(f"mask: expected the shape {(n, n)}, got {array.shape}")
    return array
