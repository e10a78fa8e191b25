"""Matrices for Hypothesis: sizes that a page could show, numbers that a form would accept."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

Floats = NDArray[np.float64]

plain = st.floats(-10, 10, allow_subnormal=False)
wide = st.floats(-1e6, 1e6)
anything = st.floats(allow_nan=True, allow_infinity=True)


def matrices(rows: int, columns: int, elements: Any = plain) -> st.SearchStrategy[Floats]:
    return arrays(np.float64, (rows, columns), elements=elements)


@st.composite
def queries_keys_values(
    draw: st.DrawFn, elements: Any = plain, square: bool = False
) -> tuple[Floats, Floats, Floats]:
    n, d_k, d_v = (draw(st.integers(1, 5)) for _ in range(3))
    m = n if square else draw(st.integers(1, 5))
    return (
        draw(matrices(n, d_k, elements)),
        draw(matrices(m, d_k, elements)),
        draw(matrices(m, d_v, elements)),
    )


def masks(n: int, m: int) -> st.SearchStrategy[NDArray[np.bool_]]:
    return arrays(np.bool_, (n, m))
