"""Hugging Face's Marian folders (the OPUS-MT models), both ways, without transformers.

The architecture is the paper's base model with three differences, all of them numbers here: the
feed-forward activation may be swish, the logits have a bias, and position i's sines fill the first
half of the vector and its cosines the second, where the paper alternates them (§3.5). The last is a
permutation of the d_model coordinates. Applied to every weight that reads or writes the residual
stream it changes no logit: attention's products and LayerNorm's mean do not know an order.

Token ids are renumbered so that padding, unknown, START and END are 0 to 3, as everywhere in this
project. Marian starts its decoder with the padding token; START gets a row of its own with the same
embedding, and a bias that keeps it out of the softmax.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from app.transformer.checkpoint import PICKLES, CheckpointError, read_safetensors
from app.transformer.config import ConfigError, TransformerConfig
from app.transformer.model import Transformer
from app.transformer.vocabulary import Vocabulary, from_marian, pieces_of

NEVER = -10_000.0  # a logit's bias: exp of it is 0 in float32, and it fits float16

_CONFIG, _WEIGHTS, _VOCABULARY = "config.json", "model.safetensors", "vocab.json"
_SOURCE, _TARGET = "source.spm", "target.spm"
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish"}
# settings that would change the calculation, and the only values understood
_FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "scale_embedding": True,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "extra_pos_embeddings": 0,
}


@dataclass(frozen=True, slots=True)
class Marian:
    """An imported model: float32, in evaluation mode, and its tokenizer.model."""

    model: Transformer
    tokenizer: bytes


def from_interleaved(d_model: int) -> Tensor:
    """For each of Marian's coordinates, which of the paper's it is.

    >>> from_interleaved(6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def read(folder: Path) -> Marian:
    """Import a folder with config.json, model.safetensors, vocab.json, source.spm and target.spm.

    Raises CheckpointError, naming the file, for anything that is missing, a pickle, or different
    from the architecture above.
    """
    settings = _settings(folder / _CONFIG)
    config, vocabulary = _config_and_vocabulary(folder, settings)
    weights = _weights(folder)
    order = torch.tensor(vocabulary.order)  # Marian's id of each of our tokens
    rows = weights.pop("model.shared.weight", None)
    rows = weights.pop("lm_head.weight", rows) if rows is None else rows
    if rows is None or rows.shape != (settings["vocab_size"], config.d_model):
        raise _wrong(folder / _WEIGHTS, "model.shared.weight is missing or has another shape")
    to_ours = torch.argsort(from_interleaved(config.d_model))
    model = Transformer(config).eval().requires_grad_(False)
    model.embedding.weight.copy_(rows.float()[order][:, to_ours])
    if model.output_bias is not None:
        bias = weights.get("final_logits_bias", torch.zeros(1, settings["vocab_size"]))
        model.output_bias.copy_(bias.float().flatten()[order])
        if vocabulary.start_added:
            model.output_bias[config.bos_id] = NEVER
    parameters = dict(model.named_parameters())
    for ours, theirs, permute in _names(config):
        tensor = weights.get(theirs)
        if tensor is None:
            raise _wrong(folder / _WEIGHTS, f"it lacks {theirs}")
        if tensor.shape != parameters[ours].shape:
            raise _wrong(
                folder / _WEIGHTS,
                f"{theirs} has shape {list(tensor.shape)}, "
                f"{_CONFIG} wants {list(parameters[ours].shape)}",
            )
        parameters[ours].copy_(permute(tensor.float(), to_ours))
    for name, parameter in parameters.items():
        if not torch.isfinite(parameter).all():
            raise _wrong(folder / _WEIGHTS, f"{name} has values that are not finite")
    return Marian(model, vocabulary.tokenizer)


def write(
    folder: Path, model: Transformer, tokenizer: bytes, *, source: str = "", target: str = ""
) -> Path:
    """Export a folder that MarianMTModel and MarianTokenizer load; `source`, `target`: languages.

    Raises ConfigError when Marian cannot express the configuration.
    """
    config = model.config
    if abs(config.layer_norm_epsilon - 1e-5) > 1e-12:
        raise ConfigError(
            f"layer_norm_epsilon = {config.layer_norm_epsilon}: Marian's models have 1e-5"
        )
    to_marian = from_interleaved(config.d_model)
    parameters = dict(model.named_parameters())
    bias = torch.zeros(config.vocab_size) if model.output_bias is None else model.output_bias
    weights = {
        "model.shared.weight": model.embedding.weight.detach()[:, to_marian],
        "final_logits_bias": bias.detach()[None],
    }
    for ours, theirs, permute in _names(config):
        weights[theirs] = permute(parameters[ours].detach(), to_marian)
    weights = {name: t.to("cpu", torch.float32).contiguous() for name, t in weights.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _WEIGHTS).write_bytes(safetensors.torch.save(weights, metadata={"format": "pt"}))
    ids = {piece: i for i, piece in enumerate(pieces_of(tokenizer))}
    _write_json(folder / _VOCABULARY, ids)
    (folder / _SOURCE).write_bytes(tokenizer)
    (folder / _TARGET).write_bytes(tokenizer)
    _write_json(folder / _CONFIG, _marian_config(config))
    _write_json(
        folder / "generation_config.json",
        {
            "decoder_start_token_id": config.bos_id,
            "eos_token_id": config.eos_id,
            "pad_token_id": config.pad_id,
            "suppress_tokens": [config.pad_id, config.unk_id, config.bos_id],
            "num_beams": 4,
            "early_stopping": True,
            "max_length": config.max_len,
        },
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": source,
            "target_lang": target,
            "model_max_length": config.max_len,
            "separate_vocabs": False,
            "clean_up_tokenization_spaces": False,
        },
    )
    return folder


Permute = Callable[[Tensor, Tensor], Tensor]


def _columns(tensor: Tensor, order: Tensor) -> Tensor:
    """A matrix that reads the residual stream."""
    return tensor[:, order]


def _rows(tensor: Tensor, order: Tensor) -> Tensor:
    """A matrix or a vector that writes to the residual stream."""
    return tensor[order]


def _alone(tensor: Tensor, order: Tensor) -> Tensor:
    """A vector inside a head or the feed-forward network."""
    return tensor


def _names(config: TransformerConfig) -> Iterator[tuple[str, str, Permute]]:
    """Our name of each parameter of the layers, Marian's, and how to permute it."""
    for stack, layers in (("encoder", config.N_encoder), ("decoder", config.N_decoder)):
        attentions = [("self_attention", "self_attn")]
        if stack == "decoder":
            attentions.append(("cross_attention", "encoder_attn"))
        for i in range(layers):
            ours, theirs = f"{stack}.{i}", f"model.{stack}.layers.{i}"
            norms = [("feed_forward_norm", "final_layer_norm")]
            for our_attention, their_attention in attentions:
                norms.append((f"{our_attention}_norm", f"{their_attention}_layer_norm"))
                for projection in "QKV":
                    name = f"{their_attention}.{projection.lower()}_proj"
                    yield (
                        f"{ours}.{our_attention}.W_{projection}.weight",
                        f"{theirs}.{name}.weight",
                        _columns,
                    )
                    yield (
                        f"{ours}.{our_attention}.W_{projection}.bias",
                        f"{theirs}.{name}.bias",
                        _alone,
                    )
                for kind in ("weight", "bias"):
                    name = f"{their_attention}.out_proj.{kind}"
                    yield f"{ours}.{our_attention}.W_O.{kind}", f"{theirs}.{name}", _rows
            for our_norm, their_norm in norms:
                for kind in ("weight", "bias"):
                    yield (
                        f"{ours}.{our_norm}.layer_norm.{kind}",
                        f"{theirs}.{their_norm}.{kind}",
                        _rows,
                    )
            yield f"{ours}.feed_forward.W_1.weight", f"{theirs}.fc1.weight", _columns
            yield f"{ours}.feed_forward.W_1.bias", f"{theirs}.fc1.bias", _alone
            for kind in ("weight", "bias"):
                yield f"{ours}.feed_forward.W_2.{kind}", f"{theirs}.fc2.{kind}", _rows


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(
            path, "it is missing", f"Name a folder with {_CONFIG} and {_WEIGHTS}."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(path, f"it cannot be read ({error})") from None
    if not isinstance(settings, dict) or settings.get("model_type") != "marian":
        raise _wrong(path, 'its model_type is not "marian"')
    for name, value in _FIXED.items():
        if settings.get(name, value) != value:
            raise _wrong(path, f"{name} = {settings[name]!r} is a different architecture")
    pairs = (
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_ffn_dim", "decoder_ffn_dim"),
    )
    for one, other in pairs:
        if settings.get(one) != settings.get(other):
            raise _wrong(path, f"{one} and {other} differ")
    if settings.get("decoder_vocab_size") not in (None, settings.get("vocab_size")):
        raise _wrong(path, "source and target have vocabularies of their own")
    if settings.get("activation_function") not in _ACTIVATIONS:
        raise _wrong(path, f"activation_function = {settings.get('activation_function')!r}")
    return settings


def _config_and_vocabulary(
    folder: Path, settings: dict[str, Any]
) -> tuple[TransformerConfig, Vocabulary]:
    path = folder / _CONFIG
    try:
        ids = json.loads((folder / _VOCABULARY).read_bytes())
        source = (folder / _SOURCE).read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(
            Path(str(error.filename)), "it is missing", "Fetch the whole model folder."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(folder / _VOCABULARY, f"it cannot be read ({error})") from None
    try:
        vocabulary = from_marian(
            ids,
            source,
            size=settings["vocab_size"],
            pad=settings["pad_token_id"],
            start=settings["decoder_start_token_id"],
            end=settings["eos_token_id"],
        )
        config = TransformerConfig(
            vocab_size=len(vocabulary.order),
            d_model=settings["d_model"],
            N_encoder=settings["encoder_layers"],
            N_decoder=settings["decoder_layers"],
            h=settings["encoder_attention_heads"],
            d_ff=settings["encoder_ffn_dim"],
            dropout=settings.get("dropout", 0.1),
            max_len=settings.get("max_position_embeddings", 512),
            activation=_ACTIVATIONS[settings["activation_function"]],
            output_bias=True,
            layer_norm_epsilon=1e-5,
        )
    except KeyError as error:
        raise _wrong(path, f"it lacks {error}") from None
    except (ValueError, TypeError) as error:
        raise _wrong(path, str(error)) from None
    return config, vocabulary


def _weights(folder: Path) -> dict[str, Tensor]:
    path = folder / _WEIGHTS
    if not path.exists():
        for other in sorted(folder.iterdir()):
            if other.suffix in PICKLES:
                raise CheckpointError(
                    other,
                    "it is a pickle, and opening a pickle can run any code hidden in it",
                    f"Fetch the model's {_WEIGHTS} instead: Hugging Face offers it for most "
                    "models, often in the revision refs/pr/….",
                )
        raise CheckpointError(path, "it is missing", "Fetch the whole model folder.")
    return read_safetensors(path.resolve())


def _marian_config(config: TransformerConfig) -> dict[str, Any]:
    heads, ffn = config.h, config.d_ff
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.N_encoder,
        "decoder_layers": config.N_decoder,
        "num_hidden_layers": config.N_encoder,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": ffn,
        "decoder_ffn_dim": ffn,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "max_position_embeddings": config.max_len,
        "pad_token_id": config.pad_id,
        "eos_token_id": config.eos_id,
        "bos_token_id": config.bos_id,
        "decoder_start_token_id": config.bos_id,
        "forced_eos_token_id": None,
        **{name: value for name, value in _FIXED.items() if name != "extra_pos_embeddings"},
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _wrong(path: Path, problem: str) -> CheckpointError:
    return CheckpointError(
        path, problem, "Only Marian models of the paper's architecture are read."
    )
