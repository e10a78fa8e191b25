"""Configurations: what is accepted, and what each refusal says."""

from __future__ import annotations

import json

import pytest

from app.transformer.config import PRESETS, ConfigError, TransformerConfig, preset


def test_presets_are_the_papers() -> None:
    """Table 3, and §3.2.2: base d_k = 512 / 8 = 64, big d_k = 1024 / 16 = 64."""
    base, big = preset("base", 37_000), preset("big", 37_000)
    assert (base.d_model, base.h, base.d_ff, base.N_encoder, base.N_decoder) == (512, 8, 2048, 6, 6)
    assert (big.d_model, big.h, big.d_ff, big.N_encoder, big.N_decoder) == (1024, 16, 4096, 6, 6)
    assert base.d_k == base.d_v == big.d_k == big.d_v == 64
    assert (base.dropout, big.dropout) == (0.1, 0.3)


@pytest.mark.parametrize("name", PRESETS)
def test_config_json_round_trip(name: str) -> None:
    config = preset(name, 1000, N_encoder=2)
    assert TransformerConfig.from_dict(json.loads(config.to_json())) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": 0}, "vocab_size = 0"),
        ({"vocab_size": 10, "d_model": 30, "h": 4}, "not divisible by h = 4"),
        ({"vocab_size": 10, "d_model": 9, "h": 3}, "d_model = 9 is odd"),
        ({"vocab_size": 10, "N_decoder": 0}, "at least one layer"),
        ({"vocab_size": 10, "dropout": 1.0}, "dropout = 1.0"),
        ({"vocab_size": 10, "h": True}, "h = True"),
        ({"vocab_size": 10, "layer_norm_epsilon": 0.0}, "layer_norm_epsilon"),
        ({"vocab_size": 3}, "lie outside the 3 tokens"),
        ({"vocab_size": 10, "heads": 4}, "unknown: heads"),
        ({"d_model": 8}, "vocab_size is missing"),
    ],
)
def test_refusals_name_the_field(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransformerConfig.from_dict(values)


def test_unknown_preset_lists_the_known() -> None:
    with pytest.raises(ConfigError, match="base, big, small, tiny"):
        preset("huge", 100)
