"""What the documents promise, held against the files: commands, locks, import rules, sizes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

PYPROJECT = "pyproject.toml"


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / PYPROJECT).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def requirements(project: dict[str, Any]) -> list[str]:
    extras = project["project"]["optional-dependencies"].values()
    return [*project["project"]["dependencies"], *(each for extra in extras for each in extra)]


@pytest.fixture(scope="module")
def tracked(root: Path) -> list[Path]:
    """Every file that git knows and that is there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


def make_targets(root: Path) -> set[str]:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", ".ci/run", "Dockerfile"])
def test_every_make_command_that_is_named_exists(root: Path, document: str) -> None:
    text = (root / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|&& |RUN )make ([a-z]+)", text, re.MULTILINE))
    assert named, f"{document} names no make command"
    assert named <= make_targets(root)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(root: Path, document: str) -> None:
    text = (root / document).read_text(encoding="utf-8")
    names = re.findall(
        r"`((?:app|templates|static|tests|benchmarks|worked_examples)/[\w./-]*)`", text
    )
    names += re.findall(r"\]\((?!http)([\w./-]+)\)", text)
    assert names
    assert [name for name in names if not (root / name).exists()] == []


def test_the_commands_that_the_readme_names_are_the_clis(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"explorable-attention (serve|train|evaluate|export|import)\b", readme))
    helped = subprocess.run(
        [sys.executable, "-c", "from app.cli import main; main()", "--help"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert {"serve", "train", "evaluate"} <= named
    assert [command for command in named if command not in helped] == []


def test_locks_and_scripts_name_no_host(root: Path) -> None:
    """Any registry that serves the pinned versions will do, so none is written down."""
    names = ["package-lock.json", "package.json", "constraints.txt", ".npmrc", "Makefile"]
    names += ["Dockerfile", ".ci/run", PYPROJECT, "hatch_build.py"]
    files = [root / name for name in names] + sorted((root / "scripts").iterdir())
    outside = re.compile(
        r"https?://(?!127\.0\.0\.1)|\"resolved\"|--(?:extra-)?index-url|--registry"
    )
    assert [file.name for file in files if outside.search(file.read_text(encoding="utf-8"))] == []


def test_each_dependency_has_a_reason(root: Path, requirements: list[str]) -> None:
    lines = (root / PYPROJECT).read_text(encoding="utf-8").splitlines()
    for requirement in requirements:
        line = next(line for line in lines if line.lstrip().startswith(f'"{requirement}"'))
        reason = line.partition("#")[2].strip()
        assert len(reason) > 10, f"{requirement}: say in a comment why it is needed"


def test_constraints_pin_each_dependency(root: Path, requirements: list[str]) -> None:
    pins = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonical(line.partition("==")[0]) for line in pins if "==" in line}
    names = {canonical(re.split(r"[\[<>=~!; ]", requirement)[0]) for requirement in requirements}
    assert names <= pinned, "run: make constraints"
    assert not any("+" in line or "@" in line for line in pins if "==" in line)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_nothing_third_party_is_committed(tracked: list[Path]) -> None:
    assert [path.name for path in tracked if "node_modules" in path.parts] == []
    scripts = [path for path in tracked if path.suffix in (".js", ".mjs", ".css")]
    assert scripts, "the project's own scripts and styles are tracked"
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        assert ".min." not in path.name, f"{path} looks minified"
        assert max(map(len, text.splitlines()), default=0) <= 200, f"{path} looks minified"
        assert not re.search(r"@license|copyright \(c\)", text, re.IGNORECASE), path


def test_no_file_needs_a_table_of_contents(tracked: list[Path]) -> None:
    own = [path for path in tracked if path.suffix in (".py", ".js", ".css", ".html")]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in own}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


def test_each_package_of_the_app_has_an_import_rule(root: Path, project: dict[str, Any]) -> None:
    """`lint-imports` holds the contracts; this holds that nobody is left without one."""
    contracts = project["tool"]["importlinter"]["contracts"]
    ruled = {module for contract in contracts for module in contract["source_modules"]}
    packages = {f"app.{path.parent.name}" for path in (root / "app").glob("*/__init__.py")}
    assert packages <= ruled


def test_the_paper_is_numpy_and_the_standard_library(root: Path) -> None:
    allowed = {*sys.stdlib_module_names, "numpy"}
    for path in sorted((root / "app" / "paper").rglob("*.py")):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module or "")
        others = {name for name in imported if name.split(".")[0] not in allowed}
        assert all(name.startswith("app.paper") for name in others), f"{path}: {others}"


def test_the_image_is_built_by_the_commands_that_ci_runs(root: Path) -> None:
    dockerfile = (root / "Dockerfile").read_text(encoding="utf-8")
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(bases) > 1, "more than one stage"
    assert all(re.search(r":\d+\.\d+-\w+-\w+$", base) for base in bases), "pinned by tag"
    assert "RUN make install" in dockerfile
    assert "USER root" not in dockerfile
    assert "\nUSER " in dockerfile.rpartition("\nFROM ")[2]
    assert "/healthz" in dockerfile.partition("HEALTHCHECK")[2]

    # What `make install` reads must be there before it runs.
    before = dockerfile.partition("RUN make install")[0]
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    needed = re.search(r"^PACKAGING := (.*)$", makefile, re.MULTILINE)
    assert needed is not None
    for name in [*needed[1].split(), "package.json", "package-lock.json", ".npmrc", "Makefile"]:
        assert name in before or f"{name.partition('/')[0]}/" in before, name


def test_the_image_leaves_out_what_belongs_to_the_builder(root: Path) -> None:
    ignored = (root / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "node_modules", ".env"} <= set(ignored)
    assert not {"model_weights", "templates", "static", "worked_examples", "app"} & set(ignored)


def test_ci_runs_the_readmes_command(root: Path) -> None:
    run = root / ".ci" / "run"
    lines = run.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test"
    assert run.stat().st_mode & 0o111, "may be executed"
