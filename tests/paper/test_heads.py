"""Multi-head attention: the three-position toy by hand, structure, and torch's own module."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.paper import masks
from app.paper.attention import attention
from app.paper.errors import ShapeError
from app.paper.heads import join, multi_head

from . import strategies

torch.set_num_threads(1)

X = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
FIRST, SECOND = np.eye(4)[:, :2], np.eye(4)[:, 2:]
W_Q = W_K = np.stack([FIRST, SECOND])
W_V = np.stack([SECOND, FIRST])


def test_two_heads_by_hand() -> None:
    """Head 2's query at position 3 is (0, 0): so it averages (1, 0), (0, 1), (1, 1)."""
    steps = multi_head(X, X, X, W_Q, W_K, W_V, np.eye(4), masks.causal(3))
    np.testing.assert_allclose(steps.heads[1].weights[2], [1 / 3] * 3, atol=1e-15)
    expected = [0.248255, 0.248255, 2 / 3, 2 / 3]
    np.testing.assert_allclose(steps.concat[2], expected, atol=5e-7)
    np.testing.assert_array_equal(steps.output, steps.concat)


def test_the_order_of_the_heads_is_the_order_of_the_coordinates() -> None:
    mask = masks.causal(3)
    straight = multi_head(X, X, X, W_Q, W_K, W_V, np.eye(4), mask)
    turned = multi_head(X, X, X, W_Q[::-1], W_K[::-1], W_V[::-1], np.eye(4), mask)
    np.testing.assert_array_equal(turned.concat, straight.concat[:, [2, 3, 0, 1]])
    swap = np.eye(4)[[2, 3, 0, 1]]
    undone = multi_head(X, X, X, W_Q[::-1], W_K[::-1], W_V[::-1], swap, mask)
    np.testing.assert_array_equal(undone.output, straight.output)


def test_heads_are_views_of_the_stack() -> None:
    steps = multi_head(X, X, X, W_Q, W_K, W_V, np.eye(4))
    assert len(steps.heads) == 2
    for h, head in enumerate(steps.heads):
        alone = attention(X @ W_Q[h], X @ W_K[h], X @ W_V[h])
        np.testing.assert_array_equal(head.weights, alone.weights)
        np.testing.assert_array_equal(head.output, steps.stacked.output[h])


@given(st.data())
def test_earlier_rows_are_the_same_to_the_last_bit(data: st.DataObject) -> None:
    x = data.draw(strategies.matrices(3, 4, strategies.wide))
    edited = x.copy()
    edited[2] = data.draw(strategies.matrices(1, 4, strategies.anything))[0]
    mask = masks.causal(3)
    a = multi_head(x, x, x, W_Q, W_K, W_V, np.eye(4), mask)
    b = multi_head(edited, edited, edited, W_Q, W_K, W_V, np.eye(4), mask)
    assert a.output[:2].tobytes() == b.output[:2].tobytes()


def test_torchs_multihead_attention_agrees() -> None:
    rng = np.random.default_rng(0)
    batch, n, m, d_model, h = 2, 4, 5, 6, 3
    d_k = d_model // h
    q, memory = rng.normal(size=(batch, n, d_model)), rng.normal(size=(batch, m, d_model))
    W = [rng.normal(size=(h, d_model, d_k)) for _ in range(3)]
    W_O = rng.normal(size=(d_model, d_model))
    mask = rng.random((n, m)) < 0.6
    mask[:, 0] = True
    theirs = torch.nn.MultiheadAttention(
        d_model, h, bias=False, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        stacked = [np.concatenate(list(w), axis=1).T for w in W]
        theirs.in_proj_weight.copy_(torch.from_numpy(np.concatenate(stacked)))
        theirs.out_proj.weight.copy_(torch.from_numpy(W_O.T))
        source = torch.from_numpy(memory)
        expected, _ = theirs(torch.from_numpy(q), source, source, attn_mask=torch.from_numpy(~mask))
    ours = multi_head(q, memory, memory, *W, W_O, mask)
    np.testing.assert_allclose(ours.output, expected.numpy(), atol=1e-12)
    assert ours.heads == ()
    assert ours.stacked.weights.shape == (batch, h, n, m)


def test_joining_one_head_changes_nothing() -> None:
    np.testing.assert_array_equal(join(X[None]), X)


@pytest.mark.parametrize(
    ("W_Q", "W_V", "W_O", "words"),
    [
        (np.ones((2, 3, 2)), W_V, np.eye(4), r"W_Q: expected d_model = 4 rows, got .*\(2, 3, 2\)"),
        (np.ones((1, 4, 2)), W_V, np.eye(4), "as many heads in each"),
        (W_Q, W_V, np.eye(3), "W_O: expected h·d_v = 4 rows"),
        (W_Q[0], W_V, np.eye(4), "W_Q: expected at least 3 dimensions"),
    ],
)
def test_matrices_that_do_not_fit_are_named(
    W_Q: np.ndarray, W_V: np.ndarray, W_O: np.ndarray, words: str
) -> None:
    with pytest.raises(ShapeError, match=words):
        multi_head(X, X, X, W_Q, W_K, W_V, W_O)
