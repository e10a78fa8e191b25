"""The application with its real models, loaded once for the tests that need them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings


@pytest.fixture(scope="session")
def real() -> Iterator[TestClient]:
    """A client of the app as it is shipped, once its models are ready."""
    with TestClient(create_app(Settings(translate_seconds=300)), base_url="http://a") as client:
        deadline = time.monotonic() + 300
        while client.get("/readyz").status_code == 503:
            assert time.monotonic() < deadline, client.get("/readyz").text
            time.sleep(0.1)
        yield client
