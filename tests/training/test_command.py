"""The commands train and average, and the script that runs them on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from app.cli import app
from app.training.command import average_run
from app.training.state import StateError, average, snapshots
from app.transformer import checkpoint

TOML = """
[model]
preset = "tiny"
[data]
vocab_size = 310
[optimiser]
warmup_steps = 5
schedule = "linear"
[run]
steps = {steps}
batch_tokens = 1200
log_every = 2
save_every = 2
evaluate_every = 100
dev_bleu_sentences = 0
compile = false
threads = 1
"""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(TOML.format(steps=6))
    return path


def test_train_then_average_makes_a_model(corpus: Path, toml: Path, tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "xx-yy"
    card = tmp_path / "card.md"
    card.write_text("# A test\n")
    trained = CliRunner().invoke(
        app, ["train", str(toml), "--data", str(corpus), "--output", str(run)]
    )
    assert trained.exit_code == 0, trained.output
    assert "400 pairs, 0 lines left out" in trained.output
    averaged = CliRunner().invoke(
        app, ["average", str(run), str(model), "--last", "2", "--until", "5", "--card", str(card)]
    )
    assert averaged.exit_code == 0, averaged.output
    assert "the mean of steps 2, 4" in averaged.output
    loaded = checkpoint.load(model)
    assert loaded.card == "# A test\n"
    expected = average(snapshots(run)[:2])["embedding.weight"]
    assert torch.equal(loaded.model.embedding.weight.half(), expected.half())


def test_mistakes_are_told_not_thrown(corpus: Path, toml: Path, tmp_path: Path) -> None:
    toml.write_text(TOML.format(steps=6) + "speed = 9\n")
    wrong = CliRunner().invoke(app, ["train", str(toml), "--data", str(corpus)])
    assert wrong.exit_code == 2
    assert "run.speed: unknown key" in wrong.output
    nothing = CliRunner().invoke(app, ["average", str(tmp_path), str(tmp_path / "model")])
    assert nothing.exit_code == 2
    assert "holds no snapshots" in nothing.output
    with pytest.raises(StateError, match="up to that step"):
        average_run(tmp_path, tmp_path / "model", last=5)


def test_the_gpu_script_also_runs_without_one(
    corpus: Path, toml: Path, tmp_path: Path, root: Path
) -> None:
    """The same commands in the same order, on the CPU: a checkpoint that loads comes out."""
    script = root / "benchmarks" / "train_on_gpu.sh"
    done = subprocess.run(
        ["sh", script, corpus, tmp_path / "out", toml, "5"],
        cwd=root, check=False, capture_output=True, text=True, timeout=400,
        env=os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "finished at step 6" in done.stdout
    assert "BLEU" in done.stdout
    assert checkpoint.load(tmp_path / "out" / "model").config.vocab_size == 310


def test_the_gpu_configuration_is_the_papers_base_model(root: Path) -> None:
    """Table 3: N 6, d_model 512, d_ff 2048, h 8."""
    from app.training.config import load_config
    from app.training.loop import build_model

    config = build_model(load_config(root / "benchmarks" / "base_on_gpu.toml"), 8000)
    assert (config.N_encoder, config.N_decoder, config.d_model) == (6, 6, 512)
    assert (config.d_ff, config.h) == (2048, 8)
