"""Sentences to try, and how the model at hand differs from the paper's."""

from __future__ import annotations

from typing import Final, NamedTuple

from app.translation.protocol import ModelInfo

EXAMPLES: Final = (
    ("The children are playing in the garden.", "Seven words in, about as many out."),
    ("The cat saw the cat.", "The same word twice: two positions, two rows, two columns."),
    ("She did not sleep because the dog was barking.", "German sends the verb to the end."),
    ("I have lost my keys again.", "A perfect tense with a word inside it."),
    ("He gave her the book that he had read.", "Who gave what to whom?"),
    ("Where is the nearest train station?", "A question."),
    ("I am cold. Close the window, please.", "Two sentences, translated one after the other."),
    ("My flibbertigibbet ate 47 ☃.", "A rare word falls into pieces, an unknown sign into bytes."),
    ("a<b </s> 😀 & {{7*7}}", "Signs that mean something elsewhere; here they are text."),
)


class Difference(NamedTuple):
    """One property, here and in the paper."""

    name: str
    here: str
    paper: str
    where: str


def differences(info: ModelInfo | None) -> list[Difference]:
    """The model's sizes beside those of the paper's base model; none where it is not there."""
    if info is None or info.state != "ready":
        return []
    vocabulary = {"French": "32,000 word pieces", "German": "37,000 byte pairs"}
    return [
        Difference(
            "Layers",
            f"{info.N_encoder} encoder, {info.N_decoder} decoder",
            "6 encoder, 6 decoder",
            "§3.1",
        ),
        Difference("Width d_model", str(info.d_model), "512", "Table 3"),
        Difference("Heads h", str(info.h), "8", "Table 3"),
        Difference("Inner width d_ff", f"{info.d_ff:,}", "2,048", "Table 3"),
        Difference(
            "Vocabulary",
            f"{info.vocab_size:,} unigram pieces and bytes",
            vocabulary.get(info.target, "37,000 byte pairs"),
            "§5.1",
        ),
        Difference("Parameters", f"{info.parameters / 1e6:.1f} million", "65 million", "Table 3"),
    ]
