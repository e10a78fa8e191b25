"""One model of this machine: translating with it, and looking into it. Blocking; needs one thread.

`service.py` decides when; here is what. Everything takes and returns protocol.py's values.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from app.transformer import decoding
from app.transformer.checkpoint import Checkpoint
from app.transformer.config import TransformerConfig
from app.transformer.decoding import SearchOptions, length_penalty, search
from app.transformer.prepared import PreparedTransformer
from app.transformer.steps import CachedSteps, Steps, UncachedSteps
from app.transformer.trace import Interventions as ModelInterventions
from app.transformer.trace import Trace as Recorder
from app.translation.protocol import (
    Array,
    AttentionKind,
    BadRequest,
    CacheStep,
    Candidate,
    HeadImportance,
    Hypothesis,
    Interventions,
    NextToken,
    Options,
    Sentence,
    SublayerTrace,
    Token,
    Trace,
)
from app.translation.tokenizer import EOS_ID, Tokenizer
from app.translation.tokens import shown

SHOWN_NEXT = 10  # entries of a next-token distribution that are named


def choose_device(wanted: str = "auto") -> torch.device:
    """`wanted`, or the best there is: CUDA, Apple's MPS, the CPU."""
    if wanted != "auto":
        return torch.device(wanted)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@dataclass(frozen=True, slots=True)
class Work:
    """One sentence to translate."""

    text: str
    ids: tuple[int, ...]  # END last


class LocalModel:
    """A verified checkpoint, ready to use."""

    def __init__(self, name: str, checkpoint: Checkpoint) -> None:
        self.name = name
        self.digest = checkpoint.digest
        self.config: TransformerConfig = checkpoint.config
        self.tokenizer = Tokenizer(checkpoint.tokenizer)
        if self.tokenizer.vocab_size != self.config.vocab_size:
            raise ValueError(
                f"tokenizer.model has {self.tokenizer.vocab_size} tokens, "
                f"config.json says {self.config.vocab_size}"
            )
        self.model = checkpoint.model
        self.device = self.model.embedding.weight.device
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        # float32, for batches as well: a sentence then has the same translation and list alone and
        # beside others. In bfloat16 that holds for nine lists in ten, scores move by 0.01 to 0.1,
        # and 3 best translations in 100 are other ones; it is for evaluation, where only the mean
        # counts (benchmarks/README.md).
        self._prepared = PreparedTransformer(self.model)

    def warm_up(self) -> None:
        """Translate and look inside once, so that no visitor waits for what is done only once:
        memory that is touched for the first time, and the kernels' choices.
        """
        work = self.work("The children are playing in the garden.")
        options = Options(model=self.name, history=True)
        found: list[decoding.Found] = []
        self.translate([work], options, on_found=lambda _, result: found.append(result))
        best = self.sentence(work, found[0], options).hypotheses[0]
        self.trace(work.ids, [token.id for token in best.tokens], Interventions())

    def tokens(self, ids: Sequence[int]) -> tuple[Token, ...]:
        """Ids as a page shows them."""
        return shown(self.tokenizer, ids)

    def text(self, ids: Sequence[int]) -> str:
        """The text that ids make; control characters and bytes that make none leave no trace."""
        text = self.tokenizer.decode(ids).replace("\ufffd", "")
        return "".join(c for c in text if unicodedata.category(c) != "Cc")

    def work(self, text: str) -> Work:
        """A sentence's ids, white space folded."""
        text = " ".join(text.split())
        return Work(text, tuple(self.tokenizer.encode(text)))

    def translate(
        self,
        batch: Sequence[Work],
        options: Options,
        on_step: decoding.OnStep | None = None,
        on_found: decoding.OnFound | None = None,
    ) -> None:
        """Translate sentences together; each goes to `on_found` as soon as it is done."""
        search(
            self._steps(options.interventions),
            self.config,
            [work.ids for work in batch],
            SearchOptions(options.beam_size, options.alpha, history=options.history),
            on_step=on_step,
            on_found=on_found,
            device=self.device,
        )

    def _steps(self, interventions: Interventions) -> Steps:
        if interventions.any:
            return UncachedSteps(self.model, model_interventions(interventions))
        return CachedSteps(self._prepared)

    def continued(
        self,
        source: Sequence[int],
        given: Sequence[int],
        most: int,
        interventions: Interventions,
    ) -> tuple[Token, ...]:
        """`given` and what the model writes after it: the likeliest token, until END or `most`."""
        src, read, _, target = self._pass(source, (*given, EOS_ID))
        written = list(target[:-1])
        most = min(most, self.config.max_len - 1)  # all of them are read, the last one in vain
        never = [self.config.pad_id, self.config.bos_id, self.config.unk_id]  # as in a search
        steps = self._steps(interventions)
        with torch.inference_mode():
            steps.start(src, 1, max(most, len(written)) + 1)
            for token in read[0]:
                logits = steps.step(token[None], None)
            while len(written) < most and written[-1:] != [EOS_ID]:
                logits[:, never] = -torch.inf
                best = logits[0, : self.config.vocab_size].argmax()
                written.append(int(best))
                logits = steps.step(best[None], None)
        return self.tokens(written)

    def sentence(self, work: Work, found: decoding.Found, options: Options) -> Sentence:
        """A search's result in the page's terms."""
        named: dict[int, Token] = {}

        def token(token_id: int) -> Token:
            if token_id not in named:
                (named[token_id],) = self.tokens([token_id])
            return named[token_id]

        return Sentence(
            text=work.text,
            source_tokens=self.tokens(work.ids),
            hypotheses=tuple(
                Hypothesis(
                    text=self.text(h.tokens),
                    tokens=self.tokens(h.tokens),
                    log_probs=h.log_probs,
                    log_prob=h.log_prob,
                    length_penalty=length_penalty(len(h.tokens), options.alpha),
                    score=h.score,
                    ended=h.ended,
                )
                for h in found.hypotheses
            ),
            history=tuple(
                tuple(
                    Candidate(c.parent, token(c.token), c.token_log_prob, c.log_prob, c.fate)
                    for c in step
                )
                for step in found.history
            ),
        )

    def trace(
        self, source: Sequence[int], target: Sequence[int], interventions: Interventions
    ) -> Trace:
        """One pass with everything recorded."""
        src, tgt, source, target = self._pass(source, target)
        recorder = Recorder(wanted=(".weights", ".sublayer", ".residual_sum", ".layer_norm"))
        with torch.inference_mode():
            logits = self.model(
                src, tgt, trace=recorder, interventions=model_interventions(interventions)
            )[0]
            log_probs = torch.log_softmax(logits.float(), dim=-1)
            best = log_probs.topk(min(SHOWN_NEXT, self.config.vocab_size))
        names = [name.removesuffix(".residual_sum") for name in recorder.tensors]
        sublayers = [n for n, full in zip(names, recorder.tensors, strict=True) if n != full]
        next_tokens = tuple(
            tuple(
                NextToken(token, probability)
                for token, probability in zip(self.tokens(ids), probabilities, strict=True)
            )
            for ids, probabilities in zip(
                best.indices.tolist(), best.values.exp().tolist(), strict=True
            )
        )
        return Trace(
            model=self.name,
            digest=self.digest,
            source_tokens=self.tokens(source),
            target_tokens=self.tokens((self.config.bos_id, *target[:-1])),
            predicted=self.tokens(target),
            interventions=interventions,
            encoder=_stacked(recorder, "encoder", "self_attention", self.config.N_encoder),
            decoder=_stacked(recorder, "decoder", "self_attention", self.config.N_decoder),
            cross=_stacked(recorder, "decoder", "cross_attention", self.config.N_decoder),
            sublayers={name: _sublayer(recorder, name) for name in sublayers},
            log_probs=_array(log_probs),
            next_tokens=next_tokens,
        )

    def head_importance(
        self, source: Sequence[int], target: Sequence[int]
    ) -> tuple[HeadImportance, ...]:
        """The target's log-probability with each head silenced; the largest loss first."""
        src, tgt, _, target = self._pass(source, target)
        wanted = torch.tensor(target, device=self.device)[:, None]

        def log_prob(memory: Tensor, interventions: ModelInterventions) -> float:
            hidden = self.model.decode(tgt, memory, None, interventions=interventions)
            log_probs = torch.log_softmax(self.model.logits(hidden)[0].double(), dim=-1)
            return float(log_probs.gather(1, wanted).sum())

        kinds: tuple[tuple[AttentionKind, int], ...] = (
            ("encoder", self.config.N_encoder),
            ("decoder", self.config.N_decoder),
            ("cross", self.config.N_decoder),
        )
        results = []
        with torch.inference_mode():
            memory = self.model.encode(src, None, interventions=ModelInterventions())
            whole = log_prob(memory, ModelInterventions())
            for kind, layers in kinds:
                for layer in range(layers):
                    for head in range(self.config.h):
                        silenced = ModelInterventions(silenced=frozenset({(kind, layer, head)}))
                        seen = memory
                        if kind == "encoder":
                            seen = self.model.encode(src, None, interventions=silenced)
                        without = log_prob(seen, silenced)
                        results.append(HeadImportance(kind, layer, head, without, without - whole))
        return tuple(sorted(results, key=lambda result: result.change))

    def cache_steps(self, source: Sequence[int], target: Sequence[int]) -> tuple[CacheStep, ...]:
        """Write `target` with CachedSteps and UncachedSteps, and compare each step.

        Multiply-adds are those of the textbook calculation with one row a token: projections,
        scores, mixing, feed-forward and logits. Without a cache the whole prefix and the memory's
        keys and values are computed again at each step.
        """
        src, tgt, source, target = self._pass(source, target)
        config = self.config
        cached: Steps = CachedSteps(self._prepared)
        uncached: Steps = UncachedSteps(self.model)
        results = []
        with torch.inference_mode():
            for steps in (cached, uncached):
                steps.start(src, 1, len(target))
            for position, token in enumerate(self.tokens(target)):
                logits, seconds = [], []
                for steps in (cached, uncached):
                    started = time.perf_counter()
                    row = steps.step(tgt[0, position : position + 1], None)
                    logits.append(row[:, : config.vocab_size])
                    seconds.append(time.perf_counter() - started)
                results.append(
                    CacheStep(
                        position=position,
                        token=token,
                        positions_with=1,
                        positions_without=position + 1,
                        multiply_adds_with=_multiply_adds(config, 1, position + 1, len(source), 0),
                        multiply_adds_without=_multiply_adds(
                            config, position + 1, position + 1, len(source), len(source)
                        ),
                        seconds_with=seconds[0],
                        seconds_without=seconds[1],
                        largest_difference=float((logits[0] - logits[1]).abs().max()),
                        bytes_cached=4
                        * 2
                        * config.N_decoder
                        * config.d_model
                        * (position + 1 + len(source)),
                    )
                )
        return tuple(results)

    def _pass(
        self, source: Sequence[int], target: Sequence[int]
    ) -> tuple[Tensor, Tensor, tuple[int, ...], tuple[int, ...]]:
        """What the model reads, (1, n_src) and (1, n_tgt), and the checked ids."""
        source, target = tuple(source), tuple(target)
        if source and source[-1] != EOS_ID:
            source = (*source, EOS_ID)
        for field, ids in (("text", source), ("target", target)):
            if not ids:
                raise BadRequest(field, "At least one token is needed here.")
            if len(ids) > self.config.max_len:
                raise BadRequest(field, f"At most {self.config.max_len} tokens are possible here.")
            for token in ids:
                if not 0 <= token < self.config.vocab_size or token == self.config.pad_id:
                    raise BadRequest(
                        field,
                        f"{token} is not a token of this model: they are numbered from 1 to "
                        f"{self.config.vocab_size - 1}.",
                    )
        read = (self.config.bos_id, *target[:-1])
        return (
            torch.tensor([source], device=self.device),
            torch.tensor([read], device=self.device),
            source,
            target,
        )


def model_interventions(interventions: Interventions) -> ModelInterventions:
    """The protocol's interventions as the model takes them."""
    return ModelInterventions(
        causal=interventions.causal,
        scaled=interventions.scaled,
        positions=interventions.positions,
        silenced=frozenset(interventions.silenced),
    )


def _multiply_adds(
    config: TransformerConfig, positions: int, context: int, n_src: int, projected: int
) -> int:
    """Of one decoder step that computes `positions` rows, each attending to `context` of them.

    `projected`: source positions whose cross-attention keys and values are computed in this step.
    """
    d = config.d_model
    projections = positions * 4 * d * d + positions * 2 * d * d + projected * 2 * d * d
    attention = 2 * positions * context * d + 2 * positions * n_src * d
    feed_forward = 2 * positions * d * config.d_ff
    return config.N_decoder * (projections + attention + feed_forward) + d * config.vocab_size


def _array(tensor: Tensor) -> Array:
    return tensor.detach().float().cpu().numpy()


def _stacked(recorder: Recorder, stack: str, attention: str, layers: int) -> Array:
    """(layer, h, n_q, n_k) weights of a batch of one."""
    return _array(
        torch.stack([recorder[f"{stack}.{i}.{attention}.weights"][0] for i in range(layers)])
    )


def _sublayer(recorder: Recorder, name: str) -> SublayerTrace:
    residual_sum = recorder[f"{name}.residual_sum"][0]
    exact = residual_sum.double() if residual_sum.device.type != "mps" else residual_sum
    return SublayerTrace(
        name=name,
        output=_array(recorder[f"{name}.sublayer"][0]),
        residual_sum=_array(residual_sum),
        mean=_array(exact.mean(-1)),
        deviation=_array(exact.std(-1, correction=0)),
        layer_norm=_array(recorder[f"{name}.layer_norm"][0]),
    )
