"""`python -m app.training CONFIG.toml`: what torchrun starts in every process."""

from __future__ import annotations

from pathlib import Path

import typer

from app.training.command import run


def main(
    config: Path, data: Path | None = None, output: Path = Path("run"), steps: int | None = None
) -> None:
    """Train from a TOML file."""
    run(config, data=data, output=output, steps=steps)


if __name__ == "__main__":
    typer.run(main)
