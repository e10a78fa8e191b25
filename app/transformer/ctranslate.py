"""Export to CTranslate2, a fast C++ engine (`pip install explorable-attention[peers]`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from app.transformer.attention import MultiHeadAttention
from app.transformer.layers import AddAndNorm, FeedForward
from app.transformer.model import Transformer
from app.transformer.vocabulary import pieces_of

Quantization = Literal["float32", "int8", "bfloat16", "float16"]


def write(
    folder: Path, model: Transformer, tokenizer: bytes, quantization: Quantization = "float32"
) -> Path:
    """Write a folder that `ctranslate2.Translator` loads; sources must close with </s>."""
    from ctranslate2 import specs

    config = model.config
    spec: Any = specs.TransformerSpec.from_config(
        (config.N_encoder, config.N_decoder),
        config.h,
        pre_norm=False,
        activation=getattr(specs.Activation, config.activation.upper()),
    )
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = math.sqrt(config.d_model)
        side.position_encodings.encodings = _array(model.positions)
    spec.encoder.embeddings[0].weight = _array(model.embedding.weight)
    spec.decoder.embeddings.weight = _array(model.embedding.weight)
    spec.decoder.projection.weight = _array(model.embedding.weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    layers: tuple[Any, Any] = (model.encoder, model.decoder)
    for target, layer in zip(spec.encoder.layer, layers[0], strict=True):
        _attention(target.self_attention, layer.self_attention, layer.self_attention_norm)
        _feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_norm)
    for target, layer in zip(spec.decoder.layer, layers[1], strict=True):
        _attention(target.self_attention, layer.self_attention, layer.self_attention_norm)
        _attention(target.attention, layer.cross_attention, layer.cross_attention_norm)
        _feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_norm)
    pieces = pieces_of(tokenizer)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token = pieces[config.unk_id]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[config.bos_id]
    spec.config.eos_token = pieces[config.eos_id]
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return folder


def _attention(target: Any, attention: MultiHeadAttention, norm: AddAndNorm) -> None:
    q, k, v = (
        (_array(w.weight), _array(w.bias)) for w in (attention.W_Q, attention.W_K, attention.W_V)
    )
    # self-attention has Q, K and V in one matrix; cross-attention has Q, and K and V in one
    groups = [(q, k, v)] if len(target.linear) == 2 else [(q,), (k, v)]
    for linear, group in zip(target.linear, groups, strict=False):
        linear.weight = np.concatenate([weight for weight, _ in group])
        linear.bias = np.concatenate([bias for _, bias in group])
    target.linear[-1].weight = _array(attention.W_O.weight)
    target.linear[-1].bias = _array(attention.W_O.bias)
    _norm(target.layer_norm, norm)


def _feed_forward(target: Any, feed_forward: FeedForward, norm: AddAndNorm) -> None:
    for linear, ours in ((target.linear_0, feed_forward.W_1), (target.linear_1, feed_forward.W_2)):
        linear.weight, linear.bias = _array(ours.weight), _array(ours.bias)
    _norm(target.layer_norm, norm)


def _norm(target: Any, norm: AddAndNorm) -> None:
    target.gamma, target.beta = _array(norm.layer_norm.weight), _array(norm.layer_norm.bias)


def _array(tensor: Tensor) -> Any:
    return np.ascontiguousarray(tensor.detach().float().cpu().numpy())
