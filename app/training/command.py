"""What `explorable-attention train` and `average` run, with the progress bar."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from app.training.config import TrainConfig, TrainConfigError, load_config
from app.training.data import DataError
from app.training.loop import Diverged, Trainer
from app.training.state import StateError, average, snapshots
from app.transformer import checkpoint
from app.transformer.config import ConfigError, TransformerConfig
from app.transformer.model import Transformer
from app.translation.tokenizer import TokenizerError

# what a person can cause or mend; each message says how
FAILURES = (
    TrainConfigError,
    DataError,
    ConfigError,
    TokenizerError,
    StateError,
    Diverged,
    checkpoint.CheckpointError,
)


def with_paths(config: TrainConfig, data: Path | None) -> TrainConfig:
    """The configuration with `--data FOLDER` filled in: FOLDER/train.tsv.gz and FOLDER/dev.tsv."""
    if data is not None:
        found = next(
            (data / name for name in ("train.tsv.gz", "train.tsv") if (data / name).exists()), None
        )
        if found is None:
            raise TrainConfigError(f"{data} holds neither train.tsv.gz nor train.tsv")
        dev = data / "dev.tsv"
        changes = {"train": str(found), "dev": str(dev) if dev.exists() else ""}
        config = config.model_copy(update={"data": config.data.model_copy(update=changes)})
    if not config.data.train:
        raise TrainConfigError("no training text: set [data] train or give --data FOLDER")
    return config


def run(path: Path, *, data: Path | None, output: Path, steps: int | None) -> None:
    """Train, or go on training, the run in `output`."""
    config = with_paths(load_config(path), data)
    if steps is not None:
        config = config.model_copy(update={"run": config.run.model_copy(update={"steps": steps})})
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeRemainingColumn(),
    )
    # of several processes only the first has something to show
    first = os.environ.get("RANK", "0") == "0"
    with Progress(*columns, console=console, disable=not first) as progress:
        task = progress.add_task("reading", total=config.run.steps)

        def report(entry: dict[str, Any]) -> None:
            progress.update(task, completed=entry["step"], description=describe(entry))
            if entry["event"] != "train" or not console.is_terminal:
                console.print(describe(entry), highlight=False, markup=False, soft_wrap=True)

        Trainer(config, output, report).train()


def average_run(
    run: Path, output: Path, *, last: int, until: int | None = None, card: Path | None = None
) -> list[int]:
    """Write the mean of a run's newest snapshots as a model's folder; returns their steps."""
    paths = [path for path in snapshots(run) if until is None or _step(path) <= until][-last:]
    if not paths:
        raise StateError(f"{run} holds no snapshots of weights up to that step")
    try:
        values = json.loads((run / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StateError(f"{run / 'config.json'} cannot be read: {error}") from error
    model = Transformer(TransformerConfig.from_dict(values))
    model.load_state_dict(average(paths))
    text = card.read_text(encoding="utf-8") if card else f"# {output.name}\n\nNot described yet.\n"
    checkpoint.save(output, model, run / "tokenizer.model", text)
    return [_step(path) for path in paths]


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def describe(entry: dict[str, Any]) -> str:
    """A log entry in words."""
    match entry["event"]:
        case "train":
            return (
                f"step {entry['step']} epoch {entry['epoch'] + 1} loss {entry['loss']:.3f} "
                f"{entry['tokens_per_second']:.0f} tokens/s {entry['seconds_left']:.0f} s left"
            )
        case "dev":
            bleu = f", BLEU {entry['bleu']:.1f}" if "bleu" in entry else ""
            return f"step {entry['step']} dev perplexity {entry['perplexity']:.2f}{bleu}"
        case "start" | "resume":
            left_out = sum(entry["skipped"].values())
            return (
                f"{entry['event']} at step {entry['step']}: {entry['pairs']} pairs, {left_out} "
                f"lines left out {entry['skipped']}, {entry['parameters']:,} parameters, "
                f"{entry['processes']} × {entry['device']}"
            )
        case event:
            return f"{event} at step {entry['step']}"
