"""`pip install .` and then serve, from any folder: the wheel is built, unpacked and asked."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

# Runs in the unpacked wheel, far from the checkout.
ASK = """
import sys
from pathlib import Path
from starlette.testclient import TestClient
import app
from app import paths
from app.main import create_app

assert Path(app.__file__).is_relative_to(sys.argv[1]), app.__file__
assert paths.TEMPLATES.is_relative_to(sys.argv[1]), paths.TEMPLATES
with TestClient(create_app()) as client:
    for path in ("/", "/healthz", "/chapters/three-positions", "/api/v1/three-positions"):
        assert client.get(path).status_code == 200, path
"""


@pytest.fixture(scope="module")
def unpacked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's contents as an installer would lay them out."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = next(WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"]))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_wheel_holds_what_the_pages_need(root: Path, unpacked: Path) -> None:
    bundled = unpacked / "app" / "_bundled"
    for folder in ("templates", "static", "worked_examples", "model_weights"):
        expected = [path.relative_to(root) for path in (root / folder).rglob("*") if path.is_file()]
        expected = [path for path in expected if "__pycache__" not in path.parts]
        assert [path for path in expected if not (bundled / path).is_file()] == []
    assert (bundled / "node_modules/htmx.org/dist/htmx.min.js").is_file()
    assert list((bundled / "node_modules/plotly.js-cartesian-dist-min").glob("*.min.js"))
    assert not (bundled / "node_modules/axe-core").exists(), "only the tests need axe"


def test_the_wheel_holds_nothing_else(unpacked: Path) -> None:
    top = {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")}
    assert top == {"app"}
    assert [path for path in unpacked.rglob("*") if path.suffix in (".pyc", ".gz", ".map")] == []


def test_the_wheel_serves_from_any_folder(unpacked: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(unpacked), "PYTHONSAFEPATH": "1"}
    asked = subprocess.run(
        [sys.executable, "-c", ASK, str(unpacked)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
