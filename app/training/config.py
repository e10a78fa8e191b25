"""The trainer's TOML file: four tables, every key known, anything else refused by name."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class TrainConfigError(ValueError):
    """A training configuration that cannot be used; the message names each key and what it accepts."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelTable(_Table):
    """[model]: a preset and what to change in it."""

    preset: Literal["base", "big", "small", "tiny"] = "small"
    d_model: int | None = None
    N_encoder: int | None = None
    N_decoder: int | None = None
    h: int | None = None
    d_ff: int | None = None
    dropout: float | None = None
    max_len: int | None = None


class DataTable(_Table):
    """[data]: where the text is; relative paths count from the working directory."""

    train: str = ""  # TSV or TSV.gz, source and target; may be given by --data instead
    dev: str = ""  # TSV, source and one or more references
    mono: tuple[str, ...] = ()  # further TSV files in the same form, back-translations for example
    vocab_size: int = Field(8000, ge=300)
    tokenizer: str = ""  # an existing tokenizer.model; trained on the training text when empty
    max_tokens: int = Field(60, ge=2)  # pairs with a longer side are left out, and counted
    sample_alpha: float = Field(0.0, ge=0, le=1)  # subword regularisation; 0: always the likeliest


class OptimiserTable(_Table):
    """[optimiser]: Adam with the paper's constants, and the learning rate over time (§5.3)."""

    peak_rate: float = Field(1e-3, gt=0)  # reached at the end of the warm-up
    warmup_steps: int = Field(4000, ge=1)
    schedule: Literal["paper", "linear"] = "paper"  # after it: 1/√step as in eq. 3, or a line to 0
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.98, ge=0, lt=1)
    epsilon: float = Field(1e-9, gt=0)
    clip_norm: float = Field(0.0, ge=0)  # 0: gradients are not clipped, as in the paper


class RunTable(_Table):
    """[run]: how long, how often, how fast."""

    steps: int = Field(100_000, ge=1)  # optimiser steps; the run can be extended by raising it
    batch_tokens: int = Field(
        8000, ge=16
    )  # padded source + target tokens of a step, on all devices
    accumulate: int = Field(1, ge=1)  # batches whose gradients are summed before a step
    seed: int = 1
    log_every: int = Field(50, ge=1)
    evaluate_every: int = Field(1000, ge=1)
    save_every: int = Field(1000, ge=1)
    keep: int = Field(10, ge=1)  # weight snapshots kept for averaging
    dev_bleu_sentences: int = Field(200, ge=0)  # sentences decoded greedily at each evaluation
    threads: int = Field(0, ge=0)  # CPU threads; 0: torch's choice
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    compile: bool = True


class TrainConfig(_Table):
    """A whole training run."""

    model: ModelTable = ModelTable()
    data: DataTable = DataTable()
    optimiser: OptimiserTable = OptimiserTable()
    run: RunTable = RunTable()


def load_config(path: Path) -> TrainConfig:
    """Read and check a TOML file; TrainConfigError says what is wrong with it."""
    try:
        return TrainConfig.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TrainConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TrainConfigError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        lines = []
        for item in error.errors():
            key = ".".join(str(part) for part in item["loc"])
            what = "unknown key" if item["type"] == "extra_forbidden" else item["msg"]
            lines.append(f"{key}: {what}")
        raise TrainConfigError(f"{path}: " + "; ".join(lines)) from error
