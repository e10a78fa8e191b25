"""The trainer's TOML file: four tables, every key known, anything else refused by name."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class TrainConfigError(ValueError):
    """A training configuration that cannot be used; the message names key and remedy."""


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
    vocab_size: Annotated[int, Field(ge=300)] = 8000
    tokenizer: str = ""  # an existing tokenizer.model; trained on the training text when empty
    max_tokens: Annotated[int, Field(ge=2)] = 60  # pairs with a longer side are left out
    # longer pairs made of two to four, as a share of all pairs, drawn anew each epoch; 0: none
    join_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    sample_alpha: Annotated[float, Field(ge=0, le=1)] = 0.0  # subword regularisation; 0: none


class OptimiserTable(_Table):
    """[optimiser]: Adam with the paper's constants, and the learning rate over time (§5.3)."""

    peak_rate: Annotated[float, Field(gt=0)] = 1e-3  # reached at the end of the warm-up
    warmup_steps: Annotated[int, Field(ge=1)] = 4000
    schedule: Literal["paper", "linear"] = "paper"  # after it: 1/√step as in eq. 3, or a line to 0
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.98
    epsilon: Annotated[float, Field(gt=0)] = 1e-9
    clip_norm: Annotated[float, Field(ge=0)] = 0.0  # 0: gradients are not clipped, as in the paper


class RunTable(_Table):
    """[run]: how long, how often, how fast."""

    steps: Annotated[int, Field(ge=1)] = 100_000  # optimiser steps; raise it to go on
    batch_tokens: Annotated[int, Field(ge=16)] = 8000  # padded source + target, on all devices
    accumulate: Annotated[int, Field(ge=1)] = 1  # batches whose gradients are summed before a step
    seed: int = 1
    log_every: Annotated[int, Field(ge=1)] = 50
    evaluate_every: Annotated[int, Field(ge=1)] = 1000
    save_every: Annotated[int, Field(ge=1)] = 1000
    keep: Annotated[int, Field(ge=1)] = 10  # weight snapshots kept for averaging
    dev_bleu_sentences: Annotated[int, Field(ge=0)] = 200  # decoded greedily, each time
    threads: Annotated[int, Field(ge=0)] = 0  # CPU threads; 0: torch's choice
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
