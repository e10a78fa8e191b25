"""How many target tokens a second the trainer gets through, with and without what makes it fast.

    .venv/bin/python benchmarks/training_speed.py
    .venv/bin/python benchmarks/training_speed.py --steps 20 --threads 2

The small configuration (d_model 256, N 3, h 4, d_ff 1024, 8,000 tokens, batches of 5,000 padded
source and target tokens, dropout 0.1) on made-up short sentences: speed does not depend on what
they say. Warm-up steps, in which kernels are compiled and built, are not counted. Preloading
tcmalloc, LD_PRELOAD=libtcmalloc_minimal.so.4, helps: the default allocator gives large blocks
back each time.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from app.training.config import TrainConfig  # noqa: E402
from app.training.loop import Trainer  # noqa: E402

SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


def sentences(count: int, generator: random.Random) -> list[str]:
    """Made-up words of one to three syllables, 2 to 9 to a sentence."""

    def word() -> str:
        return "".join(generator.choices(SYLLABLES, k=generator.randint(1, 3)))

    return [" ".join(word() for _ in range(generator.randint(2, 9))) for _ in range(count)]


def measure(
    text: Path, folder: Path, steps: int, threads: int, *, compiled: bool, precision: str
) -> float:
    """Target tokens a second over `steps` steps, after as many to warm up."""
    config = TrainConfig.model_validate(
        {
            "model": {"preset": "small", "dropout": 0.1},
            "data": {"train": str(text), "vocab_size": 8000},
            "run": {"batch_tokens": 5000, "compile": compiled, "precision": precision,
                    "threads": threads},
        }
    )  # fmt: skip
    trainer = Trainer(config, folder, lambda _entry: None)
    dealt = trainer._batches()
    counted = [next(dealt) for _ in range(steps)]
    for batch in counted:
        trainer._step([batch])
    began = time.perf_counter()
    for batch in counted:
        trainer._step([batch])
    return sum(batch.target_tokens for batch in counted) / (time.perf_counter() - began)


def main() -> None:
    """Measure every combination, one after another, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="steps counted, of each kind")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    arguments = parser.parse_args()
    generator = random.Random(0)
    print(
        f"{date.today()}, torch {torch.__version__}, {platform.processor() or platform.machine()}"
    )
    print(
        f"{arguments.threads} thread(s), tcmalloc: {'tcmalloc' in os.environ.get('LD_PRELOAD', '')}"
    )
    print("| precision | compiled | target tokens a second |\n| --- | --- | ---: |")
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / "train.tsv"
        rows = zip(sentences(40_000, generator), sentences(40_000, generator), strict=True)
        text.write_text("".join(f"{a}\t{b}\n" for a, b in rows))
        for precision, compiled in (("float32", False), ("bfloat16", False), ("bfloat16", True)):
            speed = measure(
                text, Path(name) / f"{precision}-{compiled}", arguments.steps, arguments.threads,
                compiled=compiled, precision=precision,
            )  # fmt: skip
            print(f"| {precision} | {'yes' if compiled else 'no'} | {speed:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
