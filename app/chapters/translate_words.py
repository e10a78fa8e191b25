"""Sentences to try, and how the model at hand differs from the paper's."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from app.paper.schedule import WARMUP_STEPS, peak
from app.paper.tables import BASE
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

PAPER_VOCABULARY: Final = {"German": "about 37,000 byte pairs", "French": "32,000 word pieces"}
PAPER_TEXT: Final = {"German": "4.5 million", "French": "36 million"}
"""Sentence pairs of WMT 2014 (§5.1)."""


_WIDTH: Final = Markup("Width <i>d</i><sub>model</sub>")
_HEADS: Final = Markup("Heads <i>h</i>")
_INNER: Final = Markup("Inner width <i>d</i><sub>ff</sub>")


class Difference(NamedTuple):
    """One property, here and in the paper."""

    name: str
    here: str
    paper: str
    where: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model was trained, as its folder says; empty where it does not."""

    toml: dict[str, Any]
    pairs: str = ""
    """Sentence pairs of its training text, as its card writes the number."""


def read_recipe(folder: Path) -> Recipe:
    """From `train.toml` and `card.md` of a model's folder; never raises."""
    try:
        toml = tomllib.loads((folder / "train.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        toml = {}
    try:
        card = (folder / "card.md").read_text(encoding="utf-8")
    except (OSError, ValueError):
        card = ""
    pairs = re.search(r"(\d{1,3}(?:,\d{3})+) (?:sentence |training )?pairs", card)
    return Recipe(toml, pairs[1] if pairs else "")


def differences(info: ModelInfo | None, recipe: Recipe) -> list[Difference]:
    """The model beside the paper's base model; none where it is not there."""
    if info is None or info.state != "ready":
        return []
    found = [
        Difference(
            "Layers",
            f"{info.N_encoder} encoder, {info.N_decoder} decoder",
            f"{BASE.N} encoder, {BASE.N} decoder",
            "§3.1",
        ),
        Difference(_WIDTH, str(info.d_model), str(BASE.d_model), "Table 3"),
        Difference(_HEADS, str(info.h), str(BASE.h), "Table 3"),
        Difference(_INNER, f"{info.d_ff:,}", f"{BASE.d_ff:,}", "Table 3"),
        Difference(
            "Parameters",
            f"{info.parameters / 1e6:.1f} million",
            f"{BASE.params_millions} million",
            "Table 3",
        ),
        Difference(
            "Vocabulary",
            f"{info.vocab_size:,} unigram pieces, bytes among them",
            PAPER_VOCABULARY.get(info.target, ""),
            "§5.1",
        ),
    ]
    if recipe.pairs:
        paper = PAPER_TEXT.get(info.target, "")
        found.append(Difference("Sentence pairs", recipe.pairs, paper, "§5.1"))
    return [*found, *_training(recipe.toml)]


def _training(toml: dict[str, Any]) -> list[Difference]:
    model, optimiser, run = (toml.get(name, {}) for name in ("model", "optimiser", "run"))
    found = []
    if "steps" in run:
        found.append(Difference("Steps", f"{run['steps']:,}", f"{BASE.train_steps:,}", "§5.2"))
    if "batch_tokens" in run:
        here = f"{run['batch_tokens']:,} source and target together, padding included"
        paper = "about 25,000 source and 25,000 target"
        found.append(Difference("Tokens a batch", here, paper, "§5.1"))
    if "warmup_steps" in optimiser and "peak_rate" in optimiser:
        down = "in a straight line" if optimiser.get("schedule") == "linear" else "with √step"
        here = (
            f"up to {optimiser['peak_rate']:g} in {optimiser['warmup_steps']:,} steps, then "
            f"down {down}"
        )
        paper = f"up to {peak(BASE.d_model):.1g} in {WARMUP_STEPS:,} steps, then down with √step"
        found.append(Difference("Learning rate", here, paper, "§5.3"))
    if "dropout" in model:
        found.append(Difference("Dropout", f"{model['dropout']:g}", f"{BASE.dropout:g}", "§5.4"))
    if "label_smoothing" in optimiser:
        here = f"{optimiser['label_smoothing']:g}"
        found.append(Difference("Label smoothing", here, f"{BASE.label_smoothing:g}", "§5.4"))
    return found
