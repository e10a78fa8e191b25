"""What every test shares: one thread for each number library, so that no test starves another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Torch and NumPy read these once, when they are first imported, which no import above has done.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT
