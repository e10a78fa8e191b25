"""The TOML file, the committed configurations and the command's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.training.command import describe, with_paths
from app.training.config import TrainConfig, TrainConfigError, load_config


def test_the_committed_configurations_load(root: Path) -> None:
    found = sorted(root.glob("model_weights/*/train.toml"))
    assert [path.parent.name for path in found] == ["en-de", "en-fr"]
    for path in found:
        assert load_config(path).data.train == ""  # where the text lies is each user's own


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nstep = 3\n", r"run\.step: unknown key"),
        ("[extra]\n", "extra: unknown key"),
        ("[run]\nsteps = 0\n", r"run\.steps: .*greater than or equal to 1"),
        ('[optimiser]\npeak_rate = "fast"\n', r"optimiser\.peak_rate: .*number"),
        ("[model]\npreset = 'huge'\n", r"model\.preset: .*'tiny'"),
        ("[run\n", "is not TOML"),
    ],
)
def test_refusals_name_the_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.toml"
    path.write_text(text)
    with pytest.raises(TrainConfigError, match=message):
        load_config(path)
    with pytest.raises(TrainConfigError, match="cannot read"):
        load_config(tmp_path / "none.toml")


def test_the_data_folder_fills_in_the_paths(corpus: Path, tmp_path: Path) -> None:
    config = with_paths(TrainConfig(), corpus)
    assert config.data.train == str(corpus / "train.tsv")
    assert config.data.dev == str(corpus / "dev.tsv")
    with pytest.raises(TrainConfigError, match=r"neither train\.tsv\.gz nor train\.tsv"):
        with_paths(TrainConfig(), tmp_path)
    with pytest.raises(TrainConfigError, match="no training text"):
        with_paths(TrainConfig(), None)


def test_log_entries_in_words() -> None:
    entry = {"event": "train", "step": 20, "epoch": 0, "loss": 9.4, "tokens_per_second": 4552.3,
             "seconds_left": 6285}  # fmt: skip
    assert describe(entry) == "step 20 epoch 1 loss 9.400 4552 tokens/s 6285 s left"
    assert describe({"event": "dev", "step": 5, "perplexity": 7.5, "bleu": 30.26}) == (
        "step 5 dev perplexity 7.50, BLEU 30.3"
    )
    assert describe({"event": "finished", "step": 9}) == "finished at step 9"
