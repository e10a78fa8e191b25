"""Three implementations of the three-position example, held together: Python, NumPy, torch."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from app.chapters.worked_example import WorkedExample, calculate, load

torch.set_num_threads(1)
FOLDER = Path(__file__).resolve().parents[2] / "worked_examples" / "three_positions"
STATES = list(product(("original", "edited"), ("causal", "all"), (True, False), (1, 2, 3)))
ids = ["-".join(map(str, state)) for state in STATES]


@pytest.fixture(scope="module")
def example() -> WorkedExample:
    return load(FOLDER)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("three_positions", FOLDER / "calculate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str) -> str:
    """The script as a reader runs it: another process, without the application's packages."""
    command = [sys.executable, "-I", "-S", str(FOLDER / "calculate.py"), *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout


def inputs(example: WorkedExample, final_row: str) -> np.ndarray:
    return example.edit("edited").X if final_row == "edited" else example.X


# ── Python alone against NumPy ───────────────────────────────────────────────────────────────────


def test_both_start_from_the_same_numbers(example: WorkedExample, script: ModuleType) -> None:
    np.testing.assert_array_equal(script.X, example.X)
    np.testing.assert_array_equal(script.EDITED_FINAL_ROW, example.edit("edited").X[2])
    for name in ("W_Q", "W_K", "W_V"):
        stack = [head[name] for head in script.HEADS]
        np.testing.assert_array_equal(stack, getattr(example, name))
    np.testing.assert_array_equal(script.W_O, example.output_projection("identity").W_O)
    np.testing.assert_array_equal(script.GAMMA, example.gamma)
    np.testing.assert_array_equal(script.BETA, example.beta)
    assert example.epsilon == script.EPSILON


@pytest.mark.parametrize(("final_row", "mask", "scaled", "position"), STATES, ids=ids)
def test_numpy_agrees_in_every_number(
    example: WorkedExample,
    script: ModuleType,
    final_row: str,
    mask: Any,
    scaled: bool,
    position: int,
) -> None:
    state = script.calculate(final_row, mask, scaled, position)
    ours = calculate(example, inputs(example, final_row), mask, scaled)
    i = position - 1
    for theirs, head in zip(state["heads"], ours.heads, strict=True):
        for name in ("Q", "K", "V"):
            np.testing.assert_allclose(getattr(head, name), theirs[name], atol=1e-12)
        allowed = head.mask[i]
        assert [score is not None for score in theirs["scores"]] == allowed.tolist()
        for name in ("scores", "scaled_scores", "shifted"):
            found = getattr(head, name)[i][allowed]
            wanted = [number for number in theirs[name] if number is not None]
            np.testing.assert_allclose(found, wanted, atol=1e-12)
        for name in ("row_max", "exponentials", "denominator", "weights", "output"):
            np.testing.assert_allclose(getattr(head, name)[i], theirs[name], atol=1e-12)
    for name in ("concat", "output", "residual_sum", "mean", "variance", "layer_norm"):
        np.testing.assert_allclose(getattr(ours, name)[i], state[name], atol=1e-12)


# ── torch against NumPy ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("final_row", ["original", "edited"])
@pytest.mark.parametrize("mask", ["causal", "all"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("W_O", ["identity", "swapped", "averaged"])
def test_torch_agrees(
    example: WorkedExample, final_row: str, mask: Any, scaled: bool, W_O: str
) -> None:
    X = torch.from_numpy(inputs(example, final_row).copy())
    W_Q, W_K, W_V = (
        torch.from_numpy(getattr(example, name).copy()) for name in ("W_Q", "W_K", "W_V")
    )
    heads = torch.nn.functional.scaled_dot_product_attention(
        X @ W_Q, X @ W_K, X @ W_V, is_causal=mask == "causal", scale=None if scaled else 1.0
    )
    projection = torch.from_numpy(example.output_projection(W_O).W_O.copy())
    output = torch.cat(list(heads), dim=-1) @ projection
    normalised = torch.nn.functional.layer_norm(X + output, (4,), eps=example.epsilon)
    ours = calculate(example, inputs(example, final_row), mask, scaled, W_O)
    np.testing.assert_allclose(ours.concat, torch.cat(list(heads), dim=-1), atol=1e-12)
    np.testing.assert_allclose(ours.output, output, atol=1e-12)
    np.testing.assert_allclose(ours.layer_norm, normalised, atol=1e-12)


# ── Known values ─────────────────────────────────────────────────────────────────────────────────


def test_the_published_values(example: WorkedExample) -> None:
    third = calculate(example)
    near = {"atol": 5e-7}
    np.testing.assert_allclose(third.heads[0].weights[2], [0.248255, 0.248255, 0.503490], **near)
    np.testing.assert_allclose(third.concat[2], [0.248255, 0.248255, 0.666667, 0.666667], **near)
    np.testing.assert_allclose(
        third.residual_sum[2], [1.248255, 1.248255, 0.666667, 0.666667], **near
    )
    assert third.mean[2] == pytest.approx(0.957461, abs=5e-7)
    np.testing.assert_allclose(
        third.layer_norm[2], [0.999994, 0.999994, -0.999994, -0.999994], **near
    )
    unscaled = calculate(example, scaled=False)
    np.testing.assert_allclose(unscaled.heads[0].weights[2], [0.211942, 0.211942, 0.576117], **near)
    np.testing.assert_allclose(unscaled.heads[0].output[2], [0.211942, 0.211942], **near)


def test_position_two_does_not_notice_its_future(example: WorkedExample) -> None:
    """Any final row, whatever it is, to the last bit."""
    before = calculate(example)
    for head in before.heads:
        np.testing.assert_allclose(head.weights[1], [0.330238, 0.669762, 0], atol=5e-7)
        assert head.weights[1, 2] == 0
    rng = np.random.default_rng(2)
    rows = [*rng.normal(size=(20, 4)) * 10.0 ** rng.integers(-6, 7, size=(20, 1))]
    for row in [*rows, [1e6] * 4, [-1e6] * 4, [2, -1, 1, 0], [0, 0, 0, 0]]:
        X = example.X.copy()
        X[2] = row
        after = calculate(example, X)
        for a, b in zip(before.heads, after.heads, strict=True):
            assert a.output[:2].tobytes() == b.output[:2].tobytes()
        assert before.layer_norm[:2].tobytes() == after.layer_norm[:2].tobytes()


def test_position_two_notices_under_all(example: WorkedExample) -> None:
    original = calculate(example, mask="all")
    edited = calculate(example, inputs(example, "edited"), mask="all")
    before, after = (
        [0.197776, 0.401112, 0.496510, 0.751745],
        [0.424025, 0.575975, 0.744765, 0.255235],
    )
    np.testing.assert_allclose(original.concat[1], before, atol=5e-7)
    np.testing.assert_allclose(edited.concat[1], after, atol=5e-7)


def test_averaging_erases_which_head_said_what(example: WorkedExample) -> None:
    averaged = calculate(example, W_O="averaged")
    expected = (averaged.heads[0].output + averaged.heads[1].output) / 2
    np.testing.assert_allclose(averaged.output, np.hstack([expected, expected]), atol=1e-15)


def test_swapping_puts_head_two_first(example: WorkedExample) -> None:
    swapped = calculate(example, W_O="swapped")
    np.testing.assert_array_equal(swapped.output, swapped.concat[:, [2, 3, 0, 1]])


def test_the_constant_edit_leaves_beta_alone(example: WorkedExample) -> None:
    X = example.edit("constant").X
    normal = calculate(example, X)
    np.testing.assert_array_equal(normal.layer_norm[0], [0, 0, 0, 0])
    shifted = calculate(example, X, beta=[1, 2, 3, 4])
    np.testing.assert_array_equal(shifted.layer_norm[0], [1, 2, 3, 4])


def test_the_equal_edit_shares_evenly(example: WorkedExample) -> None:
    equal = calculate(example, example.edit("equal").X, mask="all")
    for head in equal.heads:
        np.testing.assert_allclose(head.weights, np.full((3, 3), 1 / 3), atol=1e-15)


def test_the_huge_edit_stays_finite(example: WorkedExample) -> None:
    """Case 9."""
    huge = calculate(example, example.edit("huge").X, mask="all")
    assert np.isfinite(huge.layer_norm).all()


# ── The script as a reader runs it ───────────────────────────────────────────────────────────────


def test_states_json_is_what_the_script_prints() -> None:
    committed = json.loads((FOLDER / "states.json").read_text(encoding="utf-8"))
    printed = json.loads(run("--json"))
    assert [list(state) for state in printed["states"]] == [
        list(state) for state in committed["states"]
    ]
    assert len(committed["states"]) == 24
    assert flattened(printed) == pytest.approx(flattened(committed), abs=1e-12)
    assert words(printed) == words(committed)


def flattened(value: Any) -> list[float]:
    """Every number of a JSON value, in order."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in flattened(item)]
    if isinstance(value, list):
        return [number for item in value for number in flattened(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def words(value: Any) -> list[object]:
    """Everything of a JSON value that is no number, in order."""
    if isinstance(value, dict):
        return [word for key, item in value.items() for word in (key, *words(item))]
    if isinstance(value, list):
        return [word for item in value for word in words(item)]
    return [value] if isinstance(value, bool | str) or value is None else []


def test_the_states_are_the_24() -> None:
    committed = json.loads((FOLDER / "states.json").read_text(encoding="utf-8"))
    names = ("final_row", "mask", "scaled", "position")
    assert [tuple(state[name] for name in names) for state in committed["states"]] == STATES


def test_the_story_shows_the_numbers() -> None:
    story = run()
    for number in ("0.248255", "0.503490", "0.666667", "0.957461", "−0.999994", "e^−0.707107"):
        assert number in story
    assert "1·1 + 1·1 = 2" in story
    assert "Changed by up to 2.209725: the final row is its own input." in story
    assert "\033" not in story, "colours only on a terminal"
    assert max(map(len, story.splitlines())) <= 100


def test_the_story_of_position_two_says_identical() -> None:
    story = run("--position", "2")
    assert "blocked: position 3 lies in position 2's future" in story
    assert "Identical to the last bit" in story
    assert "this position may attend to it" in run("--position", "2", "--mask", "all")


def test_a_wrong_choice_is_explained() -> None:
    command = [sys.executable, str(FOLDER / "calculate.py"), "--position", "4"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert "invalid choice: 4" in result.stderr


def test_the_colours_are_the_same_story(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    state = script.calculate("edited", "all", False, 3)
    script.Story(state, script.PLAIN).tell()
    plain = capsys.readouterr().out
    script.Story(state, script.COLOURED).tell()
    coloured = capsys.readouterr().out
    for code in script.COLOURED.values():
        coloured = coloured.replace(code, "")
    assert coloured == plain
