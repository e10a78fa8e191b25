"""Models for tests of everything but quality: every mechanism, random weights, made in a second."""

from __future__ import annotations

from pathlib import Path

SENTENCES = (
    "The children are playing in the garden.",
    "Die Kinder spielen im Garten.",
    "The cat saw the cat.",
    "Die Katze sah die Katze.",
    "Close the window, please.",
    "Bitte mach das Fenster zu.",
    "Les enfants jouent dans le jardin.",
    "Le chat a vu le chat.",
)


LEAN = 2.1
"""How far the decoder leans towards END: translations of a dozen tokens."""


def make(folder: Path, *names: str) -> Path:
    """Checkpoints called `names` in `folder`; the same bytes each time. Returns `folder`."""
    import torch

    from app.transformer import checkpoint
    from app.transformer.config import preset
    from app.transformer.model import Transformer
    from app.translation.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(iter(SENTENCES * 40), 310)
    for seed, name in enumerate(names or ("en-de", "en-fr"), start=1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = Transformer(preset("tiny", tokenizer.vocab_size, max_len=256))
            with torch.no_grad():  # lean towards END, so that translations are short
                norm = model.decoder[-1].feed_forward_norm.layer_norm.bias
                norm += LEAN * model.embedding.weight[model.config.eos_id]
        checkpoint.save(folder / name, model, tokenizer.model_proto, "# A model for tests\n")
    return folder
