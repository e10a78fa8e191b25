"""A tiny model and token numbers for it."""

from __future__ import annotations

import torch
from torch import Tensor

from app.transformer.config import preset
from app.transformer.model import Transformer

V = 50


def make(seed: int = 0, **changes: object) -> Transformer:
    """A tiny model in evaluation mode, biases and LayerNorms away from their starting values."""
    torch.manual_seed(seed)
    model = Transformer(preset("tiny", V, **changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    return model


def tokens(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(4, V, shape, generator=torch.Generator().manual_seed(seed))
