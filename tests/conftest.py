"""What every test shares: one thread for each number library, so that no test starves another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Torch and NumPy read these once, when they are first imported, which no import above has done.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# How long an example takes says something of the machine, not of the code. Under CI, Hypothesis
# draws the same examples each time by itself.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT
