"""Who may attend to whom."""

from __future__ import annotations

import numpy as np
import pytest

from app.paper import masks
from app.paper.errors import RangeError, ShapeError


def test_causal_allows_the_past_and_the_present() -> None:
    assert masks.causal(3).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert masks.causal(0).shape == (0, 0)


def test_everything_is_square_unless_said_otherwise() -> None:
    assert masks.everything(2).all()
    assert masks.everything(2, 5).shape == (2, 5)


def test_padding_hides_keys_not_queries() -> None:
    mask = masks.padding([[5, 0], [6, 7]], pad_id=0)
    assert mask.shape == (2, 1, 2)
    assert mask.tolist() == [[[True, False]], [[True, True]]]


def test_target_hides_the_future_and_padding() -> None:
    mask = masks.target([[5, 6, 0]], pad_id=0)
    assert mask.tolist() == [[[True, False, False], [True, True, False], [True, True, False]]]


def test_cross_has_no_triangle() -> None:
    """Case 6."""
    mask = masks.cross(2, [7, 8, 9, 0], pad_id=0)
    assert mask.tolist() == [[True, True, True, False]] * 2
    assert masks.cross(2, np.zeros((3, 4), int), pad_id=1).shape == (3, 2, 4)


@pytest.mark.parametrize("make", [masks.causal, masks.everything])
def test_a_negative_size_is_refused(make: object) -> None:
    with pytest.raises(RangeError, match="0 or more positions"):
        make(-1)  # type: ignore[operator]


def test_a_lone_token_is_no_sequence() -> None:
    with pytest.raises(ShapeError, match="row of token ids"):
        masks.padding(5, pad_id=0)
