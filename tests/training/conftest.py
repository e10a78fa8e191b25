"""A small parallel corpus that a tiny model learns within seconds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from app.training.config import TrainConfig
from app.translation.tokenizer import Tokenizer, train_tokenizer

WORDS = {
    "red": "rot", "blue": "blau", "green": "grün", "old": "alt", "new": "neu", "big": "groß",
    "house": "Haus", "tree": "Baum", "car": "Auto", "book": "Buch", "dog": "Hund", "cat": "Katze",
}  # fmt: skip


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Sentences of one to five words, translated word by word."""
    generator = random.Random(seed)
    rows = [generator.choices(list(WORDS), k=generator.randint(1, 5)) for _ in range(count)]
    return [(" ".join(row), " ".join(WORDS[word] for word in row)) for row in rows]


def write_tsv(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv, dev.tsv and a shared tokenizer.model."""
    folder = tmp_path_factory.mktemp("corpus")
    write_tsv(folder / "train.tsv", pairs(400))
    write_tsv(folder / "dev.tsv", pairs(20, seed=1))
    text = (side for pair in pairs(400) for side in pair)
    (folder / "tokenizer.model").write_bytes(train_tokenizer(text, 310).model_proto)
    return folder


@pytest.fixture(scope="session")
def tokenizer(corpus: Path) -> Tokenizer:
    return Tokenizer.load(corpus / "tokenizer.model")


@pytest.fixture
def config(corpus: Path) -> TrainConfig:
    """A run of 12 steps that takes about a second."""
    return TrainConfig.model_validate(
        {
            "model": {"preset": "tiny", "dropout": 0.1},
            "data": {
                "train": str(corpus / "train.tsv"),
                "dev": str(corpus / "dev.tsv"),
                "tokenizer": str(corpus / "tokenizer.model"),
                "max_tokens": 40,
                "join_share": 0.2,
            },
            "optimiser": {"peak_rate": 3e-3, "warmup_steps": 10},
            "run": {
                "steps": 12, "batch_tokens": 600, "log_every": 1, "evaluate_every": 100,
                "save_every": 4, "dev_bleu_sentences": 4, "precision": "float32",
                "compile": False, "threads": 1,
            },
        }
    )  # fmt: skip


def changed(config: TrainConfig, table: str, **values: object) -> TrainConfig:
    """The configuration with some keys of one table replaced."""
    old = getattr(config, table)
    return config.model_copy(update={table: old.model_copy(update=values)})
