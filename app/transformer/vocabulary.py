"""Marian's vocabulary files as one SentencePiece model with this project's special ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

# generated code, whose names no type checker sees
_messages: Any = sentencepiece_model_pb2

_UNKNOWN_PENALTY = 10.0  # SentencePiece's own: kUnkPenalty

PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How Marian's ids become ours."""

    tokenizer: bytes  # a SentencePiece model whose ids are ours
    order: tuple[int, ...]  # Marian's id of each of our tokens
    start_added: bool  # START had no token of its own; it shares the padding token's embedding


def pieces_of(tokenizer: bytes) -> list[str]:
    """The pieces of a SentencePiece model, in the order of their ids."""
    return [piece.piece for piece in _parsed(tokenizer).pieces]


def from_marian(
    ids: dict[str, int], source: bytes, *, size: int, pad: int, start: int, end: int
) -> Vocabulary:
    """Join vocab.json (`ids`) and source.spm.

    Text is segmented by source.spm, as Marian does. Pieces that only the target side has are in the
    vocabulary, unused in segmenting; but a character that source.spm does not know is looked up
    among them, so single ones get the score that SentencePiece gives to unknown characters.
    Raises ValueError if the files do not belong together.
    """
    if not isinstance(ids, dict) or sorted(ids.values()) != list(range(size)):
        raise ValueError(f"vocab.json does not number {size} pieces from 0 to {size - 1}")
    if any(piece.startswith(">>") and piece.endswith("<<") for piece in ids):
        raise ValueError("it translates between several languages, which is not supported")
    names = {number: piece for piece, number in ids.items()}
    if names.get(pad) != PAD or names.get(end) != END or UNKNOWN not in ids:
        raise ValueError("padding, unknown and end are not called <pad>, <unk> and </s>")
    start_added = start == pad
    start_piece = names[start]
    if start_added:
        start_piece = next(name for name in ("<s>", "<start>", "<start >") if name not in ids)
    special = (pad, ids[UNKNOWN], start, end)
    order = (*special, *(number for number in range(size) if number not in special))

    model = _parsed(source)
    known = {piece.piece: piece for piece in model.pieces}
    unknown_score = min(piece.score for piece in model.pieces) - _UNKNOWN_PENALTY
    types = _messages.ModelProto.SentencePiece
    result = _messages.ModelProto()
    result.CopyFrom(model)
    del result.pieces[:]
    for our_id, number in enumerate(order):
        if our_id < 4:
            name = (PAD, UNKNOWN, start_piece, END)[our_id]
            kind = types.UNKNOWN if our_id == 1 else types.CONTROL
            result.pieces.add(piece=name, score=0.0, type=kind)
        elif names[number] in known:
            result.pieces.add().CopyFrom(known[names[number]])
        else:
            kind = types.NORMAL if len(names[number]) == 1 else types.UNUSED
            result.pieces.add(piece=names[number], score=unknown_score, type=kind)
    spec = result.trainer_spec
    spec.vocab_size = len(order)
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = 0, 1, 2, 3
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = PAD, UNKNOWN, start_piece, END
    return Vocabulary(result.SerializeToString(), order, start_added)


def _parsed(data: bytes) -> Any:
    model = _messages.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(f"source.spm is not a SentencePiece model ({error})") from None
    if not model.pieces:
        raise ValueError("source.spm is not a SentencePiece model")
    return model
