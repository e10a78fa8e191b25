"""A client for the core, with a chapter made for tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from tests.web.probe import probe_site

BASE = "http://127.0.0.1:8000"


@pytest.fixture(scope="session")
def probe() -> Iterator[TestClient]:
    """The core with the probe chapter alone."""
    settings = Settings()
    app = create_app(settings, site=probe_site(settings))
    with TestClient(app, base_url=BASE, raise_server_exceptions=True) as client:
        yield client
