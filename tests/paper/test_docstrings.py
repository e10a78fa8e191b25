"""The examples in docstrings run, and every public function has one line of prose at least."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

MODULES = [
    *("arrays", "attention", "cost", "errors", "heads", "masks", "positions", "schedule"),
    *("smoothing", "sublayers", "tables"),
]


def test_no_module_is_forgotten(root: Path) -> None:
    assert sorted(path.stem for path in (root / "app" / "paper").glob("[!_]*.py")) == MODULES


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"app.paper.{name}")).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_functions_say_what_they_return(name: str) -> None:
    module = importlib.import_module(f"app.paper.{name}")
    for function_name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__ and not function_name.startswith("_"):
            assert "(" in (function.__doc__ or ""), f"{function_name}: no shape"
