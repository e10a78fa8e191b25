"""Equation 1: numbers by hand, properties, and torch as a second opinion."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.paper import masks
from app.paper.attention import attention, softmax
from app.paper.errors import PaperError, ShapeError

from . import strategies
from .strategies import Floats

torch.set_num_threads(1)
Triple = tuple[Floats, Floats, Floats]


def one_head_by_hand() -> tuple[Floats, Floats]:
    """Queries and keys (1, 0), (0, 1), (1, 1); values (1, 0), (0, 1), (0, 0)."""
    Q = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    return Q, np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


# ── By hand ──────────────────────────────────────────────────────────────────────────────────────


def test_every_intermediate_of_the_third_position() -> None:
    """q = (1, 1): scores 1, 1, 2; divided by √2; less the largest, √2; e^(−1/√2) twice and 1."""
    Q, V = one_head_by_hand()
    steps = attention(Q, Q, V, masks.causal(3))
    e = math.exp(-1 / math.sqrt(2))
    total = 2 * e + 1
    np.testing.assert_array_equal(steps.scores[2], [1, 1, 2])
    np.testing.assert_allclose(
        steps.scaled_scores[2], [1 / math.sqrt(2), 1 / math.sqrt(2), math.sqrt(2)], atol=1e-15
    )
    assert steps.row_max[2] == pytest.approx(math.sqrt(2), abs=1e-15)
    np.testing.assert_allclose(steps.shifted[2], [-1 / math.sqrt(2)] * 2 + [0], atol=1e-15)
    np.testing.assert_allclose(steps.exponentials[2], [e, e, 1], atol=1e-15)
    assert steps.denominator[2] == pytest.approx(total, abs=1e-15)
    np.testing.assert_allclose(steps.weights[2], [e / total, e / total, 1 / total], atol=1e-15)
    np.testing.assert_allclose(steps.output[2], [e / total, e / total], atol=1e-15)
    np.testing.assert_allclose(steps.weights[2], [0.248255, 0.248255, 0.503490], atol=5e-7)


def test_without_scaling_the_largest_score_gets_more() -> None:
    """Scores 1, 1, 2: weights 1 / (2 + e) twice, and e / (2 + e)."""
    Q, V = one_head_by_hand()
    steps = attention(Q, Q, V, masks.causal(3), scaled=False)
    np.testing.assert_array_equal(steps.scaled_scores, steps.scores)
    expected = np.array([1, 1, math.e]) / (2 + math.e)
    np.testing.assert_allclose(steps.weights[2], expected, atol=1e-15)
    np.testing.assert_allclose(expected, [0.211942, 0.211942, 0.576117], atol=5e-7)


def test_blocked_places_are_minus_infinity_then_zero() -> None:
    Q, V = one_head_by_hand()
    steps = attention(Q, Q, V, masks.causal(3))
    blocked = ~masks.causal(3)
    assert (steps.masked_scores[blocked] == -np.inf).all()
    assert (steps.shifted[blocked] == -np.inf).all()
    assert (steps.exponentials[blocked] == 0).all()
    assert (steps.weights[blocked] == 0).all()
    assert not steps.nothing_allowed.any()


def test_a_row_with_nothing_allowed_says_so_and_leaves_the_others_alone() -> None:
    """Case 2."""
    Q, V = one_head_by_hand()
    mask = masks.everything(3)
    whole = attention(Q, Q, V, mask)
    mask[1] = False
    steps = attention(Q, Q, V, mask)
    assert steps.nothing_allowed.tolist() == [False, True, False]
    assert steps.row_max[1] == -np.inf
    assert steps.denominator[1] == 0
    np.testing.assert_array_equal(steps.weights[1], [0, 0, 0])
    np.testing.assert_array_equal(steps.output[1], [0, 0])
    for name in ("weights", "output", "row_max", "denominator"):
        assert getattr(steps, name)[[0, 2]].tobytes() == getattr(whole, name)[[0, 2]].tobytes()


def test_an_allowed_score_of_minus_two_billion_still_gets_everything() -> None:
    """Case 3: a mask of −10⁹ instead of exactness would give [0, 1]."""
    steps = attention([[1.0]], [[-2e9], [5.0]], [[1.0], [0.0]], [[True, False]])
    np.testing.assert_array_equal(steps.weights, [[1.0, 0.0]])
    np.testing.assert_array_equal(steps.output, [[1.0]])


def test_large_scores_do_not_overflow() -> None:
    """Case 4: e^0 and e^−1 over their sum."""
    np.testing.assert_allclose(softmax([1000.0, 999.0]), [0.731059, 0.268941], atol=5e-7)
    steps = attention([[1.0]], [[1000.0], [999.0]], [[1.0], [0.0]])
    np.testing.assert_allclose(steps.weights, [[0.731059, 0.268941]], atol=5e-7)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e308])
def test_whatever_stands_in_a_masked_position_reaches_no_other_row(special: float) -> None:
    """Case 5, bit by bit: in queries, keys and values at once."""
    Q, V = one_head_by_hand()
    plain = attention(Q, Q, V, masks.causal(3))
    Q, V = Q.copy(), V.copy()
    Q[2] = V[2] = special
    steps = attention(Q, Q, V, masks.causal(3))
    for name in ("masked_scores", "row_max", "shifted", "exponentials", "weights", "output"):
        assert getattr(steps, name)[:2].tobytes() == getattr(plain, name)[:2].tobytes(), name


def test_an_allowed_nan_stays_in_its_row() -> None:
    Q, V = one_head_by_hand()
    V = V.copy()
    V[1, 0] = np.nan
    steps = attention(Q, Q, V, [[True, False, True]] * 2 + [[True, True, True]])
    assert np.isnan(steps.output[2, 0])
    assert np.isfinite(steps.output[:2]).all()
    assert np.isfinite(steps.output[2, 1])


def test_cross_attention_labels_no_triangle() -> None:
    """Case 6: 2 target positions, 4 source positions, the last one padding."""
    rng = np.random.default_rng(6)
    q, k, v = rng.normal(size=(2, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    steps = attention(q, k, v, masks.cross(2, [7, 8, 9, 0], pad_id=0))
    assert steps.weights.shape == (2, 4)
    np.testing.assert_array_equal(steps.weights[:, 3], [0, 0])
    assert (steps.weights[:, :3] > 0).all()


# ── Properties ───────────────────────────────────────────────────────────────────────────────────


@given(strategies.queries_keys_values(strategies.wide), st.data())
def test_each_row_sums_to_one_or_has_nothing_allowed(qkv: Triple, data: st.DataObject) -> None:
    q, k, v = qkv
    mask = data.draw(strategies.masks(len(q), len(k)))
    steps = attention(q, k, v, mask)
    np.testing.assert_allclose(steps.weights.sum(-1), ~steps.nothing_allowed, atol=1e-12)
    assert (steps.weights[~mask] == 0).all()
    np.testing.assert_array_equal(steps.nothing_allowed, ~mask.any(-1))
    assert np.isfinite(steps.output).all()


@given(strategies.queries_keys_values(strategies.wide, square=True))
def test_causal_weights_are_exactly_zero_above_the_diagonal(qkv: Triple) -> None:
    weights = attention(*qkv, masks.causal(len(qkv[0]))).weights
    assert (weights[np.triu_indices(len(weights), 1)] == 0).all()


@given(strategies.queries_keys_values(strategies.wide, square=True), st.data())
def test_rows_before_an_edit_are_the_same_to_the_last_bit(qkv: Triple, data: st.DataObject) -> None:
    q, k, v = qkv
    first = data.draw(st.integers(0, len(q) - 1))
    before = attention(q, k, v, masks.causal(len(q)))
    edited = [x.copy() for x in (q, k, v)]
    for x in edited:
        later = strategies.matrices(len(q) - first, x.shape[1], strategies.anything)
        x[first:] = data.draw(later)
    after = attention(*edited, masks.causal(len(q)))
    for name in ("scaled_scores", "weights", "output", "denominator", "row_max"):
        a, b = getattr(before, name)[:first], getattr(after, name)[:first]
        if name == "scaled_scores":  # calculated for later keys too, which may differ
            a, b = a[:, :first], b[:, :first]
        assert a.tobytes() == b.tobytes(), name


@pytest.mark.parametrize("n", [17, 64, 130])
def test_longer_sequences_keep_the_promise_too(n: int) -> None:
    """Larger products take other paths through the linear algebra library."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 24))
    whole = attention(x, x * 2, x + 1, masks.causal(n))
    for edit in (1e200, np.nan, -np.inf, 0.0):
        other = x.copy()
        other[n // 2 :] = edit
        steps = attention(other, other * 2, other + 1, masks.causal(n))
        assert steps.output[: n // 2].tobytes() == whole.output[: n // 2].tobytes()
        assert steps.weights[: n // 2].tobytes() == whole.weights[: n // 2].tobytes()


@given(strategies.queries_keys_values(), st.floats(-50, 50))
def test_the_same_number_on_every_score_changes_no_weight(qkv: Triple, offset: float) -> None:
    scores = attention(*qkv).scores
    np.testing.assert_allclose(softmax(scores + offset), softmax(scores), atol=1e-12)


def test_scaling_does_change_weights() -> None:
    assert abs(softmax([1.0, 2.0]) - softmax([2.0, 4.0])).max() > 0.1


@given(strategies.queries_keys_values(square=True), st.randoms())
def test_permuted_rows_give_permuted_outputs(qkv: Triple, random: object) -> None:
    """Nothing in attention knows an order; a mask or added positions would."""
    order = list(range(len(qkv[0])))
    random.shuffle(order)  # type: ignore[attr-defined]
    straight = attention(*qkv).output[order]
    np.testing.assert_allclose(attention(*(x[order] for x in qkv)).output, straight, atol=1e-12)


@given(strategies.queries_keys_values())
def test_the_output_lies_between_the_values(qkv: Triple) -> None:
    output, v = attention(*qkv).output, qkv[2]
    assert (output >= v.min(0) - 1e-12).all()
    assert (output <= v.max(0) + 1e-12).all()


# ── A second opinion ─────────────────────────────────────────────────────────────────────────────


@given(strategies.queries_keys_values(), st.data())
def test_torch_agrees(qkv: Triple, data: st.DataObject) -> None:
    q, k, v = qkv
    mask = data.draw(strategies.masks(len(q), len(k)))
    mask[:, 0] = True  # torch has no answer for a row with nothing allowed
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *tensors, attn_mask=torch.from_numpy(mask)
    )
    np.testing.assert_allclose(attention(q, k, v, mask).output, theirs.numpy(), atol=1e-12)


def test_torch_agrees_with_batches_and_heads() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(2, 3, n, 4)) for n in (5, 6, 6))
    mask = rng.random((2, 1, 5, 6)) < 0.7
    mask[..., 0] = True
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *tensors, attn_mask=torch.from_numpy(mask)
    )
    np.testing.assert_allclose(attention(q, k, v, mask).output, theirs.numpy(), atol=1e-12)


# ── What is refused ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("q", "k", "v", "words"),
    [
        ([[1.0, 2.0]], [[1.0]], [[1.0]], "same d_k"),
        ([[1.0]], [[1.0], [2.0]], [[1.0]], "as many values as keys"),
        ([1.0], [[1.0]], [[1.0]], "q: expected at least 2 dimensions"),
        (np.zeros((2, 1, 1)), np.zeros((3, 1, 1)), np.zeros((3, 1, 1)), "leading dimensions"),
        (np.zeros((2, 1, 1)), np.zeros((2, 1, 1)), np.zeros((3, 1, 1)), "leading dimensions"),
        (np.zeros((1, 0)), np.zeros((1, 0)), [[1.0]], "at least 1"),
    ],
)
def test_shapes_that_do_not_fit_are_named(q: Floats, k: Floats, v: Floats, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        attention(q, k, v)


def test_a_mask_of_numbers_is_refused_because_it_may_mean_the_opposite() -> None:
    with pytest.raises(PaperError, match="mask: expected booleans, True where a query may attend"):
        attention([[1.0]], [[1.0]], [[1.0]], [[0.0]])


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 2)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="mask: expected a shape that broadcasts to"):
        attention([[1.0]], [[1.0]], [[1.0]], np.ones(shape, bool))


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(PaperError, match="q: expected numbers in rows of equal length"):
        attention([[1.0], [1.0, 2.0]], [[1.0]], [[1.0]])  # type: ignore[list-item]
