"""What every test shares: one torch thread, so that two cores serve the suite and not one matrix."""

from __future__ import annotations

import os

# Before torch or NumPy is imported anywhere: their thread pools read these once.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT
