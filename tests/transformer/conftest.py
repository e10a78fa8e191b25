"""Small models with weights that make everything matter, and vocabularies for them."""

from __future__ import annotations

import io

import pytest
import sentencepiece
import torch

from app.transformer.config import TransformerConfig, preset
from app.transformer.model import Transformer

SENTENCES = [
    "The cat sat on the mat.",
    "Where is the station?",
    "Die Katze saß auf der Matte.",
    "Wo ist der Bahnhof?",
    "The children are playing in the garden.",
    "Die Kinder spielen im Garten.",
    "I would like a cup of tea, please.",
    "Ich hätte gern eine Tasse Tee.",
]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def random_model(config: TransformerConfig, seed: int = 0) -> Transformer:
    """Weights, biases and norms all drawn at random, so that none could be left out unnoticed."""
    torch.manual_seed(seed)
    model = Transformer(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter) * 0.3)
        elif name != "embedding.weight":
            parameter.mul_(1.5)
    return model


def random_sources(config: TransformerConfig, lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Source sentences of so many tokens, END included."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [
            *torch.randint(4, config.vocab_size, (n - 1,), generator=generator).tolist(),
            config.eos_id,
        ]
        for n in lengths
    ]


@pytest.fixture(scope="session")
def tiny() -> Transformer:
    """With a vocabulary large enough to be searched by blocks, and weights that fit float16."""
    model = random_model(preset("tiny", vocab_size=4_000))
    for parameter in model.parameters():
        parameter.copy_(parameter.half())
    return model


@pytest.fixture(scope="session")
def exact_tiny() -> Transformer:
    """The same with weights that need all of float32."""
    return random_model(preset("tiny", vocab_size=4_000))


def train_spm(sentences: list[str], vocab_size: int, **options: object) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return model.getvalue()


@pytest.fixture(scope="session")
def tokenizer_model() -> bytes:
    """A tokenizer.model as the trainer makes them."""
    return train_spm(
        SENTENCES * 4,
        340,
        model_type="unigram",
        byte_fallback=True,
        normalization_rule_name="identity",
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
    )
