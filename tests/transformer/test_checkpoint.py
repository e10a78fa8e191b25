"""A checkpoint is used whole and unchanged, or refused with the file's name and the remedy."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

from app.transformer import checkpoint
from app.transformer.checkpoint import CheckpointError, load, save, write_sums
from app.transformer.config import preset
from app.transformer.model import Transformer
from tests.transformer.conftest import random_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "en-de"
    return save(folder, random_model(preset("tiny", 300)), b"a tokenizer", "# A card\n")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(saved, tmp_path / "en-de"))


def test_what_is_saved_is_what_is_loaded(saved: Path) -> None:
    model = random_model(preset("tiny", 300))
    loaded = load(saved)
    assert loaded.config == model.config
    assert (loaded.tokenizer, loaded.card) == (b"a tokenizer", "# A card\n")
    for name, parameter in model.named_parameters():
        back = loaded.model.get_parameter(name)
        assert back.dtype == torch.float32
        assert torch.equal(back, parameter.half().float()), name
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    weights = (saved / "model.safetensors").read_bytes()
    assert loaded.digest == hashlib.sha256(weights).hexdigest()


def test_the_shared_embedding_is_stored_once_and_in_half_precision(saved: Path) -> None:
    tensors = safetensors.torch.load_file(saved / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert [name for name, t in tensors.items() if t.shape[0] == 300] == ["embedding.weight"]


def test_digests_have_the_form_of_sha256sum(saved: Path) -> None:
    for line in (saved / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((saved / name).read_bytes()).hexdigest() == digest


def test_saving_again_replaces(folder: Path) -> None:
    save(folder, random_model(preset("tiny", 200), seed=1), b"another", "# B\n")
    assert load(folder).config.vocab_size == 200
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*checkpoint.CONTENTS, checkpoint.SUMS]
    )


def test_an_edited_card_needs_new_sums(folder: Path) -> None:
    (folder / "card.md").write_text("# Edited\n")
    with pytest.raises(CheckpointError, match=r"card\.md: its SHA-256"):
        load(folder)
    write_sums(folder)
    assert load(folder).card == "# Edited\n"


@pytest.mark.parametrize("name", [*checkpoint.CONTENTS, checkpoint.SUMS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match="it is missing") as caught:
        load(folder)
    assert caught.value.path.name == name
    assert caught.value.remedy


@pytest.mark.parametrize("name", checkpoint.CONTENTS)
def test_a_flipped_bit_is_noticed(folder: Path, name: str) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="SHA-256") as caught:
        load(folder)
    assert caught.value.path.name == name


@pytest.mark.parametrize("line", ["", "0" * 64 + "  ../../etc/passwd", "not a digest", "\x00" * 40])
def test_sums_name_the_four_files_and_nothing_else(folder: Path, line: str) -> None:
    with (folder / "SHA256SUMS").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(CheckpointError, match="SHA256SUMS"):
        load(folder)


@pytest.mark.parametrize("name", [*checkpoint.CONTENTS, checkpoint.SUMS])
def test_links_are_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match="symbolic link"):
        load(folder)


def test_a_pipe_does_not_block(folder: Path) -> None:
    (folder / "card.md").unlink()
    os.mkfifo(folder / "card.md")
    with pytest.raises(CheckpointError, match="not a plain file"):
        load(folder)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, ("/tmp/a-pickle-was-opened",))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "best.ckpt", "model.pkl"])
def test_a_pickle_in_place_of_the_weights_is_refused_unopened(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb()))
    for path in (folder, folder / name):
        with pytest.raises(CheckpointError, match=f"{name}: it is a pickle"):
            load(path)
    assert not Path("/tmp/a-pickle-was-opened").exists()


def test_a_pickle_by_another_name_is_refused_unopened(folder: Path) -> None:
    torch.save({"embedding.weight": torch.zeros(3)}, folder / "model.safetensors")
    write_sums(folder)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: it is a pickle"):
        load(folder)
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    write_sums(folder)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: it is a pickle"):
        load(folder)
    assert not Path("/tmp/a-pickle-was-opened").exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 8, b"\xff" * 64, b"\x10\x00\x00\x00\x00\x00\x00\x00{"]
)
def test_weights_that_are_no_safetensors_file_are_refused(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").write_bytes(data)
    write_sums(folder)
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("decoder.1.feed_forward.W_1.weight"), "lacks decoder.1.feed_forward"),
        (lambda t: t.update(extra=torch.zeros(2)), "has extra, unknown to the model"),
        (lambda t: t.update({"embedding.weight": torch.zeros(3, 32)}), r"shape \[3, 32\]"),
        (lambda t: t["embedding.weight"].fill_(float("inf")), "not finite"),
        (
            lambda t: t.update({"embedding.weight": torch.zeros(300, 32).int()}),
            "int32, not real numbers",
        ),
    ],
)
def test_weights_of_another_model_are_refused(folder: Path, change: object, message: str) -> None:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    change(tensors)  # type: ignore[operator]
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    write_sums(folder)
    with pytest.raises(CheckpointError, match=message):
        load(folder)


@pytest.mark.parametrize(
    "config",
    [
        "not JSON",
        "[]",
        "{}",
        '{"vocab_size": 300, "surprise": 1}',
        '{"vocab_size": 300, "d_model": 33}',
        '{"vocab_size": "many"}',
        '{"vocab_size": 1e400}',
        "[" * 100_000,
    ],
)
def test_a_configuration_of_no_model_is_refused(folder: Path, config: str) -> None:
    (folder / "config.json").write_text(config)
    write_sums(folder)
    with pytest.raises(CheckpointError, match=r"config\.json: it describes no model"):
        load(folder)


def test_a_configuration_of_another_model_is_refused(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"d_ff": 65}))
    write_sums(folder)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .* has shape"):
        load(folder)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        load(tmp_path / "nowhere")


def test_a_diverged_model_is_not_saved(tmp_path: Path) -> None:
    model = Transformer(preset("tiny", 300)).requires_grad_(False)
    model.embedding.weight[0, 0] = float("nan")
    with pytest.raises(CheckpointError, match=r"embedding\.weight has values that are not finite"):
        save(tmp_path / "x", model, b"", "")
    model.embedding.weight[0, 0] = 1e6  # finite, but not in float16
    with pytest.raises(CheckpointError, match="not finite"):
        save(tmp_path / "x", model, b"", "")
