"""The training loop (§5): from a configuration to snapshots of weights, resumable at any step."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from app.training.config import TrainConfig
from app.training.data import (
    Batch,
    Encoded,
    ParallelText,
    batches,
    collate,
    encode,
    join_pairs,
    read_parallel,
)
from app.training.evaluation import read_examples
from app.training.loss import smoothed_cross_entropy
from app.training.optimiser import MasterAdam, rate
from app.training.state import (
    Position,
    StateError,
    load_state,
    save_state,
    save_weights,
    truncate_log,
    write_atomically,
)
from app.training.validation import validate
from app.transformer.config import TransformerConfig, preset
from app.transformer.model import Transformer
from app.translation.tokenizer import PAD_ID, Tokenizer, train_tokenizer

Report = Callable[[dict[str, Any]], None]


class Diverged(RuntimeError):
    """Training that has become useless; the message says what was seen and what to try."""


class TrainingStep(nn.Module):
    """Sum of the smoothed cross-entropy over a batch's target tokens; what DDP wraps."""

    def __init__(self, model: Transformer, smoothing: float, *, fast: bool) -> None:
        super().__init__()
        self.model = model
        self.smoothing, self.fast = smoothing, fast

    def forward(self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> Tensor:
        """The three tensors of a Batch."""
        src_mask = self.model.src_mask(src)
        hidden = self.model.decode(tgt_in, self.model.encode(src, src_mask), src_mask)
        return smoothed_cross_entropy(
            hidden.flatten(0, 1),
            self.model.embedding.weight,
            tgt_out.masked_fill(tgt_out == PAD_ID, -1).flatten(),
            self.smoothing,
            fast=self.fast,
        )


def build_model(config: TrainConfig, vocab_size: int) -> TransformerConfig:
    """The model's sizes: the preset with the [model] table's changes."""
    changes = config.model.model_dump(exclude_none=True, exclude={"preset"})
    return preset(config.model.preset, vocab_size, **changes)


class Trainer:
    """One process of a run; under torchrun there are several, each with a share of the batches."""

    def __init__(self, config: TrainConfig, output: Path, report: Report) -> None:
        self.config, self.output, self.report = config, output, report
        # matrix kernels are built once a shape, slowly, and oneDNN remembers only 1,024 by default
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "65536")
        self.rank = int(os.environ.get("RANK", 0))
        self.world = int(os.environ.get("WORLD_SIZE", 1))
        local = int(os.environ.get("LOCAL_RANK", 0))
        self.device = (
            torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
        )
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if config.run.threads:
            torch.set_num_threads(config.run.threads)
        if self.world > 1 and not distributed.is_initialized():
            distributed.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        output.mkdir(parents=True, exist_ok=True)
        self.position = Position()
        self.stopping = False  # this process was told to stop
        self.ending = False  # every process knows of it, after the same step
        self.text = self._read()
        self.tokenizer = self._tokenizer()
        self._encoded: tuple[int, Encoded] | None = None
        torch.manual_seed(config.run.seed)
        model = Transformer(build_model(config, self.tokenizer.vocab_size)).to(self.device)
        masters = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        if config.run.precision == "bfloat16":
            # the embedding stays float32: its gradient sums thousands of rows
            model.encoder.to(torch.bfloat16)
            model.decoder.to(torch.bfloat16)
        self.model = model
        self.optimiser = MasterAdam(model.named_parameters(), masters, config.optimiser)
        self.resumed = self._resume()
        if config.run.compile:
            # equal lengths of source and target are chance, not something to compile for
            torch.fx.experimental._config.use_duck_shape = False
            for layer in (*model.encoder, *model.decoder):
                layer.compile(dynamic=True)
        step = TrainingStep(model, config.optimiser.label_smoothing, fast=config.run.compile)
        self.step_module: nn.Module = step
        if self.world > 1:
            self.step_module = nn.parallel.DistributedDataParallel(step)

    # -- preparation -------------------------------------------------------------------------

    def _read(self) -> ParallelText:
        data = self.config.data
        return read_parallel([Path(data.train), *(Path(path) for path in data.mono)])

    def _tokenizer(self) -> Tokenizer:
        path = self.output / "tokenizer.model"
        if not path.exists() and self.rank == 0:
            if self.config.data.tokenizer:
                tokenizer = Tokenizer.load(Path(self.config.data.tokenizer))
            else:
                both = (
                    side
                    for pair in zip(self.text.sources, self.text.targets, strict=True)
                    for side in pair
                )
                tokenizer = train_tokenizer(both, self.config.data.vocab_size)
            write_atomically(path, tokenizer.model_proto)
        if self.world > 1:
            distributed.barrier()
        return Tokenizer.load(path)

    def _identity(self) -> str:
        """What must not change between a run and its resumption."""
        return json.dumps(build_model(self.config, self.tokenizer.vocab_size).to_dict())

    def _resume(self) -> bool:
        found = load_state(self.output)
        if found is None:
            return False
        tensors, self.position, identity = found
        # fields that are new since then have their defaults; dropout may change in mid-run
        then = replace(
            TransformerConfig.from_dict(json.loads(identity)), dropout=self.model.config.dropout
        )
        if then != self.model.config:
            raise StateError(
                f"{self.output} holds a run of another model ({identity}); choose another folder"
            )
        self.optimiser.load(tensors)
        if self.rank == 0:
            truncate_log(self.output / "log.jsonl", self.position.step)
        return True

    # -- data --------------------------------------------------------------------------------

    def _segmented(self, epoch: int) -> Encoded:
        """The training text as tokens; drawn anew each epoch when segmentations are sampled."""
        alpha = self.config.data.sample_alpha
        wanted = epoch if alpha else 0
        if self._encoded is None or self._encoded[0] != wanted:
            seed = self.config.run.seed * 10_000 + wanted
            data = encode(
                self.text,
                self.tokenizer,
                self.config.data.max_tokens,
                sample_alpha=alpha,
                seed=seed,
            )
            self._encoded = wanted, data
        return self._encoded[1]

    def _epoch_data(self, epoch: int) -> Encoded:
        """What an epoch goes through: the text's pairs and, if asked for, longer ones of these."""
        config, data = self.config, self._segmented(epoch)
        if not config.data.join_share:
            return data
        seed = (config.run.seed, epoch)
        return join_pairs(data, config.data.join_share, config.data.max_tokens, seed)

    def _batches(self) -> Iterator[Batch]:
        """Batches from where the run stands, for ever; advances epoch and batch."""
        run = self.config.run
        while True:
            data = self._epoch_data(self.position.epoch)
            dealt = batches(
                data,
                run.batch_tokens // self.world,
                run.seed,
                self.position.epoch,
                rank=self.rank,
                world=self.world,
            )
            while self.position.batch < len(dealt):
                rows = dealt[self.position.batch]
                self.position.batch += 1
                yield collate(data, rows)
            self.position.epoch += 1
            self.position.batch = 0

    # -- the loop ----------------------------------------------------------------------------

    def train(self) -> None:
        """Run up to the configured step; returns early, state saved, after SIGTERM or SIGINT."""
        run = self.config.run
        data = self._segmented(self.position.epoch)
        self._log(
            {
                "event": "resume" if self.resumed else "start",
                "step": self.position.step,
                "pairs": len(data),
                "skipped": dict(self.text.skipped) | {"too long": data.too_long},
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "device": str(self.device),
                "processes": self.world,
            }
        )
        dealt = self._batches()
        with _signals(self._stop):
            self._mark()
            while self.position.step < run.steps and not self.ending:
                self._step([next(dealt) for _ in range(run.accumulate)])
                step = self.position.step
                if step % run.log_every == 0:
                    self._window()
                if step % run.save_every == 0 or step == run.steps:
                    self._save(snapshot=True)
                if step % run.evaluate_every == 0 or step == run.steps:
                    self._evaluate()
            if self.ending:
                self._save(snapshot=False)
        self._log({"event": "stopped" if self.ending else "finished", "step": self.position.step})

    def _step(self, parts: list[Batch]) -> None:
        self.model.train()
        # dropout depends on seed, step and process alone, so that a resumed run repeats it
        mixed = np.random.SeedSequence((self.config.run.seed, self.position.step, self.rank))
        torch.manual_seed(int(mixed.generate_state(1)[0]))
        tokens = sum(part.target_tokens for part in parts)
        loss = torch.zeros((), device=self.device)
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            quiet = (
                self.step_module.no_sync()
                if isinstance(self.step_module, nn.parallel.DistributedDataParallel) and not last
                else contextlib.nullcontext()
            )
            with quiet:
                moved = [t.to(self.device) for t in (part.src, part.tgt_in, part.tgt_out)]
                part_loss = self.step_module(*moved)
                part_loss.backward()
                loss += part_loss.detach()
        counts = [float(loss), float(tokens), float(self.stopping)]
        totals = torch.tensor(counts, dtype=torch.float64, device=self.device)
        if self.world > 1:
            distributed.all_reduce(totals)
        total, count, stops = totals.tolist()
        self.ending = stops > 0
        self.position.step += 1
        learning_rate = rate(self.position.step, self.config.optimiser, self.config.run.steps)
        # DDP has divided the summed gradients by the number of processes
        norm = self.optimiser.step(learning_rate, self.world / count)
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise Diverged(
                f"the loss or its gradient is no longer a number at step {self.position.step} "
                f"(loss {total / count}, gradient {norm}, learning rate {learning_rate:.2e}). The "
                f"last saved state is intact: lower peak_rate, lengthen warmup_steps or set "
                f"clip_norm, then run the command again."
            )
        self.position.window_loss += total
        self.position.window_tokens += int(count)
        self.position.tokens += int(count)

    def _window(self) -> None:
        """One line of the log; stops a run whose loss has left for good."""
        position = self.position
        mean = position.window_loss / max(position.window_tokens, 1)
        seconds = time.perf_counter() - self.since
        self._log(
            {
                "event": "train",
                "step": position.step,
                "epoch": position.epoch,
                "loss": mean,
                "rate": rate(position.step, self.config.optimiser, self.config.run.steps),
                "tokens": position.tokens,
                "tokens_per_second": round((position.tokens - self.tokens_then) / seconds, 1),
                "seconds_left": round(
                    (self.config.run.steps - position.step)
                    * seconds
                    / max(position.step - self.step_then, 1)
                ),
            }
        )
        if mean > position.best_window + 3:
            raise Diverged(
                f"the loss rose from {position.best_window:.2f} to {mean:.2f} by step "
                f"{position.step}: training diverges. Lower peak_rate or lengthen warmup_steps."
            )
        position.best_window = min(position.best_window, mean)
        position.window_loss, position.window_tokens = 0.0, 0
        self._mark()

    def _evaluate(self) -> None:
        """A line of the log on the held-out sentences, from the float32 weights."""
        if not self.config.data.dev or self.rank:
            return
        began = time.perf_counter()
        examples = read_examples(Path(self.config.data.dev))
        model = Transformer(self.model.config).to(self.device).eval()
        model.load_state_dict(dict(self.optimiser.named_masters()))
        found = validate(model, self.tokenizer, examples, self.config.run.dev_bleu_sentences)
        entry: dict[str, Any] = {
            "event": "dev",
            "step": self.position.step,
            "perplexity": found.perplexity,
            "translations": found.translations,
            "seconds": round(time.perf_counter() - began, 1),
        }
        if found.bleu is not None:
            entry["bleu"] = found.bleu
        self._log(entry)
        self.since += time.perf_counter() - began  # the next line's speed is that of training

    def _save(self, *, snapshot: bool) -> None:
        if self.rank:
            return
        state = self.optimiser.state()
        if snapshot:
            weights = dict(self.optimiser.named_masters())
            save_weights(self.output, self.position.step, weights, self.config.run.keep)
        write_atomically(self.output / "config.json", self.model.config.to_json().encode())
        save_state(self.output, state, self.position, self._identity())

    # -- small things ------------------------------------------------------------------------

    def _mark(self) -> None:
        self.since = time.perf_counter()
        self.tokens_then, self.step_then = self.position.tokens, self.position.step

    def _stop(self) -> None:
        self.stopping = True

    def _log(self, entry: dict[str, Any]) -> None:
        if self.rank:
            return
        with (self.output / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.report(entry)


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT end the run after the step at hand."""

    def handler(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
