"""The loop: what it learns, how it stops, and that a resumed run is the same run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from app.training.config import TrainConfig
from app.training.loop import Diverged, Report, Trainer
from app.training.state import StateError, average, snapshots
from tests.training.conftest import changed


def quiet(_entry: dict[str, Any]) -> None:
    """No report."""


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def losses(folder: Path) -> dict[int, float]:
    """Step → loss, as logged."""
    return {entry["step"]: entry["loss"] for entry in log(folder) if entry["event"] == "train"}


def train(config: TrainConfig, folder: Path, report: Report = quiet) -> None:
    Trainer(config, folder, report).train()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_tiny_run_learns_and_leaves_what_it_should(
    config: TrainConfig, tmp_path: Path, precision: str
) -> None:
    config = changed(config, "run", precision=precision, steps=40, evaluate_every=20, save_every=20)
    train(config, tmp_path)
    found = losses(tmp_path)
    assert len(found) == 40
    assert found[40] < 0.7 * found[1]
    looks = [entry for entry in log(tmp_path) if entry["event"] == "dev"]
    assert [entry["step"] for entry in looks] == [20, 40]
    assert looks[1]["perplexity"] < looks[0]["perplexity"]
    assert 0 <= looks[1]["bleu"] <= 100
    assert log(tmp_path)[-1] == {"event": "finished", "step": 40}
    assert [path.name for path in snapshots(tmp_path)] == [
        "step-00000020.safetensors", "step-00000040.safetensors"
    ]  # fmt: skip
    assert not list(tmp_path.rglob("*.pt"))
    mean = average(snapshots(tmp_path))
    first, second = (load_file(path) for path in snapshots(tmp_path))
    name = "encoder.0.feed_forward.W_1.weight"
    assert torch.allclose(mean[name], (first[name] + second[name]) / 2)
    assert mean[name].dtype == torch.float32


def test_resuming_repeats_the_uninterrupted_run_bit_for_bit(
    config: TrainConfig, tmp_path: Path
) -> None:
    """Stopped at step 5 by a signal that arrives in mid-run, resumed, compared with a run of 12."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(config, whole)

    def interrupt(entry: dict[str, Any]) -> None:
        if entry["event"] == "train" and entry["step"] == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    train(config, parts, interrupt)
    assert log(parts)[-1]["event"] == "stopped"
    assert max(losses(parts)) < 12
    train(config, parts)
    assert losses(parts) == losses(whole)
    final = [load_file(snapshots(folder)[-1]) for folder in (whole, parts)]
    assert all(torch.equal(final[0][name], final[1][name]) for name in final[0])


def test_a_run_killed_outright_resumes_from_its_last_state(
    config: TrainConfig, tmp_path: Path, root: Path
) -> None:
    """kill -9 after step 6 was logged and step 4 saved: steps 5 and 6 are repeated exactly."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    settings = tmp_path / "config.json"
    settings.write_text(config.model_dump_json())
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from app.training.config import TrainConfig; from app.training.loop import Trainer\n"
        "config = TrainConfig.model_validate_json(Path(sys.argv[1]).read_text())\n"
        "def report(entry): entry['step'] == 6 and os.kill(os.getpid(), signal.SIGKILL)\n"
        "Trainer(config, Path(sys.argv[2]), report).train()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, settings, killed], cwd=root, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert max(losses(killed)) == 6
    train(config, killed)
    train(config, whole)
    assert losses(killed) == losses(whole)


def test_training_that_is_no_longer_a_number_stops_and_says_so(
    config: TrainConfig, tmp_path: Path
) -> None:
    trainer = Trainer(config, tmp_path, quiet)
    with torch.no_grad():
        trainer.model.embedding.weight[5:] = torch.nan
    with pytest.raises(Diverged, match=r"no longer a number at step 1 .*lower peak_rate"):
        trainer.train()


def test_a_loss_that_leaves_for_good_stops_and_says_so(config: TrainConfig, tmp_path: Path) -> None:
    trainer = Trainer(config, tmp_path, quiet)
    trainer.position.best_window = 1.0
    with pytest.raises(Diverged, match=r"rose from 1\.00 to .*diverges"):
        trainer.train()


def test_another_models_folder_is_refused(config: TrainConfig, tmp_path: Path) -> None:
    config = changed(config, "run", steps=4)
    train(config, tmp_path)
    with pytest.raises(StateError, match="a run of another model"):
        Trainer(changed(config, "model", d_ff=32), tmp_path, quiet)


def test_a_damaged_state_is_named(config: TrainConfig, tmp_path: Path) -> None:
    train(changed(config, "run", steps=4), tmp_path)
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(StateError, match=r"state\.safetensors is damaged"):
        Trainer(config, tmp_path, quiet)


def test_accumulated_batches_make_one_step(config: TrainConfig, tmp_path: Path) -> None:
    """Two batches a step see twice the tokens in the same number of steps."""
    train(changed(config, "run", steps=2), tmp_path / "one")
    train(changed(config, "run", steps=2, accumulate=2), tmp_path / "two")
    one, two = (
        [e["tokens"] for e in log(tmp_path / name) if e["event"] == "train"][-1]
        for name in ("one", "two")
    )
    assert two > 1.5 * one


def test_only_the_newest_snapshots_are_kept(config: TrainConfig, tmp_path: Path) -> None:
    train(changed(config, "run", keep=2, save_every=2, steps=10), tmp_path)
    names = [path.name for path in snapshots(tmp_path)]
    assert names == ["step-00000008.safetensors", "step-00000010.safetensors"]


def test_two_processes_train_one_model(config: TrainConfig, tmp_path: Path, root: Path) -> None:
    """torchrun with gloo: both see their half, and the losses fall."""
    toml = tmp_path / "config.toml"
    data = config.data
    toml.write_text(
        f'[model]\npreset = "tiny"\n[data]\ntrain = "{data.train}"\n'
        f'tokenizer = "{data.tokenizer}"\n'
        "max_tokens = 40\n[optimiser]\npeak_rate = 3e-3\nwarmup_steps = 10\n"
        '[run]\nsteps = 8\nbatch_tokens = 1200\nlog_every = 1\nprecision = "float32"\n'
        "compile = false\nthreads = 1\n"
    )
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2",
         "--master_addr=127.0.0.1", "--master_port=0", "--rdzv_backend=c10d",
         "--rdzv_endpoint=127.0.0.1:0", "-m", "app.training", toml, "--output", tmp_path / "run"],
        cwd=root, check=True, capture_output=True, timeout=400,
    )  # fmt: skip
    entries = log(tmp_path / "run")
    assert entries[0]["processes"] == 2
    found = losses(tmp_path / "run")
    assert len(found) == 8
    assert found[8] < found[1]
