"""Text to tokens and back: one SentencePiece vocabulary shared by source and target (§5.1).

The paper used byte-pair encoding or word pieces. Here a unigram model is trained, because it can
also *sample* segmentations, which the trainer uses as a regulariser (Kudo 2018, subword
regularisation). Characters that the vocabulary lacks fall back to their UTF-8 bytes, so that
nothing a person types is lost; text is brought to Unicode NFC and otherwise left as it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import sentencepiece

PAD_ID = 0
UNK_ID = 1
BOS_ID = 2  # START: what the decoder reads before its first token
EOS_ID = 3  # END: what the decoder writes when it is done, and what closes every source sentence


class TokenizerError(ValueError):
    """A tokenizer file that cannot be used, with the reason."""


def clean(text: str) -> str:
    r"""NFC, so that "é" is one character however it was typed.

    >>> len(clean("e\u0301"))
    1
    """
    return unicodedata.normalize("NFC", text)


@dataclass(frozen=True, slots=True)
class Piece:
    """One token as a page shows it. `kind`: "text", "byte", "start", "end", "pad" or "unknown"."""

    id: int
    text: str  # "▁" stands for the space before a word; bytes as "<0xE2>"
    kind: str


class Tokenizer:
    """A loaded vocabulary; START is never part of what `encode` returns."""

    def __init__(self, model_proto: bytes) -> None:
        """From the bytes of a SentencePiece model; TokenizerError if they are not one of ours."""
        self._proto = model_proto
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            loaded = self._processor.LoadFromSerializedProto(model_proto)
        except (RuntimeError, TypeError) as error:
            raise TokenizerError(f"not a SentencePiece model: {error}") from error
        if not loaded:
            raise TokenizerError("not a SentencePiece model")
        found = (
            self._processor.pad_id(),
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
        )
        if found != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise TokenizerError(
                f"special ids (pad, unknown, start, end) are {found}, expected "
                f"{(PAD_ID, UNK_ID, BOS_ID, EOS_ID)}"
            )

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read `tokenizer.model`."""
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise TokenizerError(f"cannot read {path}: {error.strerror}") from error

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return int(self._processor.GetPieceSize())

    @property
    def model_proto(self) -> bytes:
        """The bytes of `tokenizer.model`."""
        return self._proto

    def encode(self, text: str, *, end: bool = True) -> list[int]:
        """Token ids of `text`, closed with END unless `end` is False."""
        ids: list[int] = self._processor.EncodeAsIds(clean(text))
        return [*ids, EOS_ID] if end else ids

    def encode_all(
        self, texts: Sequence[str], *, sample_alpha: float | None = None
    ) -> list[list[int]]:
        """Token ids of many texts, without END.

        `sample_alpha`: draw a segmentation with probability P(segmentation)^alpha instead of taking
        the likeliest; smaller is wilder. Seeded by `seed_sampling`.
        """
        cleaned = [clean(text) for text in texts]
        if sample_alpha is None:
            ids = self._processor.Encode(cleaned, out_type=int, num_threads=1)
        else:
            ids = self._processor.Encode(
                cleaned,
                out_type=int,
                enable_sampling=True,
                alpha=sample_alpha,
                nbest_size=-1,
                num_threads=1,
            )
        return [list(row) for row in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of token ids; START, END and padding leave no trace."""
        skip = (PAD_ID, BOS_ID, EOS_ID)
        return str(self._processor.DecodeIds([int(i) for i in ids if i not in skip]))

    def piece(self, token: int) -> Piece:
        """What one token looks like."""
        text = str(self._processor.IdToPiece(token))
        special = {PAD_ID: "pad", UNK_ID: "unknown", BOS_ID: "start", EOS_ID: "end"}
        kind = special.get(token, "byte" if self._processor.IsByte(token) else "text")
        return Piece(token, text, kind)

    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        """What several tokens look like."""
        return [self.piece(int(i)) for i in ids]


def seed_sampling(seed: int) -> None:
    """Seed the segmentations that `encode_all(sample_alpha=…)` draws in threads still to come."""
    sentencepiece.set_random_generator_seed(seed % 2**32)


def train_tokenizer(sentences: Iterator[str], vocab_size: int) -> Tokenizer:
    """Learn a shared vocabulary of `vocab_size` pieces, special ones and 256 bytes included."""
    model = BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=(clean(sentence) for sentence in sentences),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            character_coverage=0.9999,
            byte_fallback=True,
            normalization_rule_name="identity",
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_piece="<pad>",
            unk_piece="<unk>",
            bos_piece="<s>",
            eos_piece="</s>",
            num_threads=2,
            minloglevel=2,
            train_extremely_large_corpus=False,
            hard_vocab_limit=True,
        )
    except RuntimeError as error:
        raise TokenizerError(f"the vocabulary could not be trained: {error}") from error
    return Tokenizer(model.getvalue())
