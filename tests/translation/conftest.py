"""A folder of models with one tiny, untrained one: every mechanism, no quality."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece
import torch

from app.transformer import checkpoint
from app.transformer.config import preset
from app.transformer.model import Transformer
from app.translation.local import LocalModel

SENTENCES = [
    "The cat saw the cat.",
    "The children are playing in the garden.",
    "Die Kinder spielen im Garten.",
    "Where is the station?",
    "Wo ist der Bahnhof?",
]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def models_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `en-de`, a model that works, and `en-fr`, one that is damaged."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(SENTENCES * 4),
        model_writer=tokenizer,
        model_type="unigram",
        vocab_size=320,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name="identity",
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
        num_threads=1,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.getvalue()).GetPieceSize()
    torch.manual_seed(0)
    model = Transformer(preset("tiny", pieces, max_len=256)).requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter) * 0.2)
    checkpoint.save(folder / "en-de", model, tokenizer.getvalue(), "# A card\n")
    checkpoint.save(folder / "en-fr", model, tokenizer.getvalue(), "# A card\n")
    (folder / "en-fr" / "card.md").write_text("changed")
    (folder / "not a model").mkdir()
    return folder


@pytest.fixture(scope="session")
def local(models_folder: Path) -> LocalModel:
    return LocalModel("en-de", checkpoint.load(models_folder / "en-de"))
