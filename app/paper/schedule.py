"""The learning rate, section 5.3, equation 3.

lrate = d_model^−0.5 · min(step^−0.5, step · warmup_steps^−1.5)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from app.paper.arrays import Floats, floats
from app.paper.errors import RangeError

WARMUP_STEPS = 4000
"""The paper's warm-up, in steps."""


def learning_rate(step: ArrayLike, d_model: int, warmup_steps: int = WARMUP_STEPS) -> Floats:
    """The learning rate at `step` (…,), counted from 1; same shape. Equation 3.

    It rises in a straight line for warmup_steps steps and then falls with the square root. Raises
    RangeError for a step, d_model or warmup_steps below 1.

    >>> f"{learning_rate(4000, 512):.3e}"
    '6.988e-04'
    """
    steps = floats(step, "step")
    _at_least_1("d_model", d_model)
    _at_least_1("warmup_steps", warmup_steps)
    if not bool((steps >= 1).all()):
        raise RangeError(f"step: expected steps counted from 1, got {steps.min()}")
    rate: Floats = d_model**-0.5 * np.minimum(steps**-0.5, steps * warmup_steps**-1.5)
    return rate


def peak(d_model: int, warmup_steps: int = WARMUP_STEPS) -> float:
    """The largest learning rate, reached at step warmup_steps: (d_model · warmup_steps)^−0.5.

    >>> f"{peak(512):.3e}"
    '6.988e-04'
    """
    _at_least_1("d_model", d_model)
    _at_least_1("warmup_steps", warmup_steps)
    return float((d_model * warmup_steps) ** -0.5)


def _at_least_1(name: str, value: int) -> None:
    if value < 1:
        raise RangeError(f"{name}: expected at least 1, got {value}")
