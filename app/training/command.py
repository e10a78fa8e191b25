"""`explorable-attention train CONFIG.toml`: what the command line runs, with its progress bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from app.training.config import TrainConfig, TrainConfigError, load_config
from app.training.loop import Trainer


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
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("reading", total=config.run.steps)

        def report(entry: dict[str, Any]) -> None:
            progress.update(task, completed=entry["step"], description=describe(entry))
            if entry["event"] != "train" or not console.is_terminal:
                console.print(describe(entry), highlight=False, markup=False)

        Trainer(config, output, report).train()


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
