"""The encoder–decoder Transformer (§3): one implementation to train, to translate and to ask."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from app.transformer.attention import padding_mask
from app.transformer.config import TransformerConfig
from app.transformer.layers import DecoderLayer, Dropout, EncoderLayer
from app.transformer.trace import Interventions, Trace


def sinusoids(n: int, d_model: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """(n, d_model) of §3.5: sin(pos / 10000^(2i/d_model)) in columns 2i, cosines in 2i + 1.

    >>> sinusoids(1, 4).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    pos = torch.arange(n, dtype=torch.float64)[:, None]
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)[None, :]
    angle = pos / 10_000.0 ** (two_i / d_model)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).reshape(n, d_model).to(dtype)


class Transformer(nn.Module):
    """The paper's model; one embedding matrix serves source, target and output (§3.4).

    Token ids go in as (batch, n) integers, padded at the end with `config.pad_id`. Masks are
    boolean, True = may attend. Every method takes an optional `trace` that collects intermediates
    and optional `interventions` that change what is computed; without them neither costs
    anything.
    """

    positions: Tensor
    output_bias: Tensor | None

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.N_encoder))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.N_decoder))
        bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        self.register_parameter("output_bias", bias)
        self.register_buffer(
            "positions", sinusoids(config.max_len, config.d_model), persistent=False
        )
        self.initialise()

    def initialise(self) -> None:
        """Xavier-uniform matrices, zero biases; embeddings N(0, 1/d_model), so that scaled by
        √d_model they have unit variance, as large as the sinusoids added to them.
        """
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=self.config.d_model**-0.5)

    def src_mask(self, src: Tensor) -> Tensor:
        """(batch, 1, 1, n_src): True at tokens, False at padding."""
        return padding_mask(src, self.config.pad_id)

    def embed(
        self,
        tokens: Tensor,
        *,
        start: int = 0,
        trace: Trace | None = None,
        interventions: Interventions | None = None,
        name: str = "",
    ) -> Tensor:
        """(batch, n, d_model): embeddings times √d_model plus sinusoids, from position `start`."""
        n = tokens.shape[1]
        if start + n > self.config.max_len:
            raise ValueError(
                f"{start + n} tokens, but this model takes at most {self.config.max_len}"
            )
        scaled = self.embedding(tokens) * math.sqrt(self.config.d_model)
        if interventions is None or interventions.positions:
            summed = scaled + self.positions[start : start + n].to(scaled.dtype)
        else:
            summed = scaled
        if trace is not None:
            trace.record(f"{name}.scaled_embedding", scaled)
            trace.record(f"{name}.embedding", summed)
        # training may hold the layers in bfloat16 and the embedding, with its many summed
        # gradients, in float32
        output: Tensor = self.dropout(summed.to(self.compute_dtype))
        return output

    @property
    def compute_dtype(self) -> torch.dtype:
        """The number format of everything between the embedding and the logits."""
        return next(self.encoder.parameters()).dtype

    def encode(
        self,
        src: Tensor,
        src_mask: Tensor | None,
        *,
        trace: Trace | None = None,
        interventions: Interventions | None = None,
    ) -> Tensor:
        """Memory (batch, n_src, d_model) of the source tokens (batch, n_src).

        `src_mask` may be None when no sentence is padded.
        """
        x = self.embed(src, trace=trace, interventions=interventions, name="encoder")
        for index, layer in enumerate(self.encoder):
            if trace is None and interventions is None:
                x = layer(x, src_mask)  # no name: compiled once for all layers
            else:
                name = f"encoder.{index}"
                x = layer(x, src_mask, trace=trace, interventions=interventions, name=name)
        return x

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        src_mask: Tensor | None,
        *,
        trace: Trace | None = None,
        interventions: Interventions | None = None,
    ) -> Tensor:
        """Hidden states (batch, n_tgt, d_model) of the target tokens, START first.

        Padding at the end of `tgt` needs no mask of its own: the causal mask hides it from every
        earlier position.
        """
        x = self.embed(tgt, trace=trace, interventions=interventions, name="decoder")
        tgt_mask = None
        if interventions is not None and not interventions.causal:
            tgt_mask = padding_mask(tgt, self.config.pad_id)
        for index, layer in enumerate(self.decoder):
            if trace is None and interventions is None:
                x = layer(x, memory, src_mask)
                continue
            x = layer(
                x,
                memory,
                src_mask,
                tgt_mask,
                trace=trace,
                interventions=interventions,
                name=f"decoder.{index}",
            )
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, vocab_size): the pre-softmax product with the shared embedding matrix (§3.4)."""
        return F.linear(
            hidden.to(self.embedding.weight.dtype), self.embedding.weight, self.output_bias
        )

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        *,
        trace: Trace | None = None,
        interventions: Interventions | None = None,
    ) -> Tensor:
        """Logits (batch, n_tgt, vocab_size) for the token after each target position."""
        src_mask = self.src_mask(src)
        memory = self.encode(src, src_mask, trace=trace, interventions=interventions)
        hidden = self.decode(tgt, memory, src_mask, trace=trace, interventions=interventions)
        return self.logits(hidden)
