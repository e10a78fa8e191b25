"""A run's folder: the state to resume from, the weights to average, the log.

    tokenizer.model      the vocabulary, written once
    config.json          the model's sizes
    state.safetensors    masters and moments; where the run stands, as JSON metadata
    weights/step-….safetensors   float32 weights at intervals, for averaging
    log.jsonl            one JSON object a line

Every file is written beside its place, flushed to disk and renamed: a kill at any moment leaves
the old file or the new one. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor


class StateError(ValueError):
    """A run's folder that cannot be resumed from or averaged, with the reason."""


@dataclass(slots=True)
class Position:
    """Where a run stands between two steps."""

    step: int = 0  # optimiser steps done
    epoch: int = 0  # counted from 0
    batch: int = 0  # batches of this epoch that are done
    window_loss: float = 0.0  # since the last line of the log: summed loss …
    window_tokens: int = 0  # … over this many target tokens
    best_window: float = 1e30  # lowest mean loss of a window so far
    tokens: int = 0  # target tokens seen since the start


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` so that a crash leaves the one or the other."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def save_state(folder: Path, tensors: dict[str, Tensor], position: Position, run: str) -> None:
    """`run`: the configuration as JSON, to notice a resume with another one."""
    content = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"position": json.dumps(asdict(position)), "run": run}
    write_atomically(folder / "state.safetensors", save(content, metadata))


def load_state(folder: Path) -> tuple[dict[str, Tensor], Position, str] | None:
    """What `save_state` wrote; None when the folder holds no state."""
    path = folder / "state.safetensors"
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, Any] = file.metadata() or {}
        position = Position(**json.loads(metadata["position"]))
        tensors = load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"{path} is damaged: {error}. Remove it to start afresh.") from error
    return tensors, position, str(metadata["run"])


def save_weights(folder: Path, step: int, weights: dict[str, Tensor], keep: int) -> None:
    """A snapshot for averaging; the oldest beyond `keep` are removed."""
    (folder / "weights").mkdir(exist_ok=True)
    content = {name: weight.detach().float().cpu().contiguous() for name, weight in weights.items()}
    write_atomically(snapshot_path(folder, step), save(content, {"step": str(step)}))
    for old in snapshots(folder)[:-keep]:
        old.unlink()


def snapshot_path(folder: Path, step: int) -> Path:
    """Where the snapshot of a step lies."""
    return folder / "weights" / f"step-{step:08d}.safetensors"


def snapshots(folder: Path) -> list[Path]:
    """Snapshots, oldest first."""
    return sorted((folder / "weights").glob("step-*.safetensors"))


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several snapshots' weights (§6.1: the last 5 for base, 20 for big)."""
    if not paths:
        raise StateError("no snapshots to average")
    total: dict[str, Tensor] = {}
    for path in paths:
        try:
            weights = load_file(path)
        except (SafetensorError, OSError) as error:
            raise StateError(f"{path} cannot be read: {error}") from error
        if total and weights.keys() != total.keys():
            raise StateError(f"{path} holds other weights than {paths[0]}")
        for name, weight in weights.items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(paths)).float() for name, weight in total.items()}


def truncate_log(path: Path, step: int) -> None:
    """Drop the log's lines after `step`: a run killed past its last state repeats those steps."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:  # cut off in the middle of a line
            continue
        if entry.get("step", 0) <= step:
            kept.append(line + "\n")
    write_atomically(path, "".join(kept).encode())
