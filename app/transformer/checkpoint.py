"""A trained model as a folder of plain files, verified before a single weight is used.

    config.json          the TransformerConfig, one key a field
    model.safetensors    every parameter once, in half precision (float16)
    tokenizer.model      the SentencePiece model that made the ids
    card.md              what the model is, what it was trained on, how good it is
    SHA256SUMS           digests of the four, in the form `sha256sum --check` reads

Nothing here can run code: a pickle (.bin, .pt, …) is refused by name and never opened.
Every file is read once; the bytes whose digest was checked are the bytes that are used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from app.transformer.config import ConfigError, TransformerConfig
from app.transformer.model import Transformer

CONFIG, WEIGHTS, TOKENIZER, CARD = "config.json", "model.safetensors", "tokenizer.model", "card.md"
SUMS = "SHA256SUMS"
CONTENTS = (CONFIG, WEIGHTS, TOKENIZER, CARD)
PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"})
MAX_BYTES = 4 * 1024**3  # four times the paper's big model in float32

_SUM_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S+)")


class CheckpointError(Exception):
    """A checkpoint that cannot be used: which file, what is wrong with it, and what to do."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}. {remedy}")
        self.path, self.problem, self.remedy = path, problem, remedy


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint. `digest` is the SHA-256 of model.safetensors and names the weights."""

    folder: Path
    config: TransformerConfig
    model: Transformer
    tokenizer: bytes
    card: str
    digest: str


def save(
    folder: Path | str,
    model: Transformer,
    tokenizer: Path | bytes,
    card: str,
    *,
    dtype: torch.dtype = torch.float16,
) -> Path:
    """Write `model` as a checkpoint folder, replacing one that is there; return the folder.

    `tokenizer` is a SentencePiece model's path or its bytes. Each file is written beside its
    place and renamed into it, SHA256SUMS last: a crash half-way leaves a folder that is refused,
    not one that is silently wrong. Raises CheckpointError when a weight is not finite in `dtype`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():  # a shared matrix comes once
        weights[name] = parameter.detach().to("cpu", dtype).contiguous()
        if not torch.isfinite(weights[name]).all():
            raise CheckpointError(
                folder / WEIGHTS,
                f"{name} has values that are not finite in {dtype}",
                "Do not ship this model: its training diverged.",
            )
    contents = {
        CONFIG: model.config.to_json().encode(),
        WEIGHTS: safetensors.torch.save(weights, metadata={"format": "pt"}),
        TOKENIZER: tokenizer if isinstance(tokenizer, bytes) else tokenizer.read_bytes(),
        CARD: card.encode(),
    }
    for name, data in contents.items():
        _write(folder / name, data)
    write_sums(folder)
    return folder


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS for the files of `folder` as they are now (after editing card.md, say)."""
    lines = [f"{hashlib.sha256(_read(folder / n)).hexdigest()}  {n}\n" for n in CONTENTS]
    _write(folder / SUMS, "".join(lines).encode())


def load(folder: Path | str, *, device: str | torch.device = "cpu") -> Checkpoint:
    """Read and verify a checkpoint; the model comes in float32, in evaluation mode, on `device`.

    Raises CheckpointError, naming the file and the remedy, when a file is missing, damaged,
    a link, a pickle, or does not fit the configuration.
    """
    folder = Path(folder)
    if folder.suffix in PICKLES:
        raise _pickle(folder)
    if not folder.is_dir():
        raise CheckpointError(
            folder, "there is no such folder", "Name a folder that holds config.json."
        )
    folder = folder.resolve()
    for name in (WEIGHTS, CONFIG):
        if not (folder / name).exists():
            for other in sorted(folder.iterdir()):
                if other.suffix in PICKLES:
                    raise _pickle(other)
    sums = _read_sums(folder)
    contents = {name: _read(folder / name) for name in CONTENTS}
    for name, data in contents.items():
        if hashlib.sha256(data).hexdigest() != sums[name]:
            raise CheckpointError(
                folder / name,
                f"its SHA-256 is not the one in {SUMS}",
                "The file was changed or damaged: fetch the model again, "
                f"or run `sha256sum {' '.join(CONTENTS)} > {SUMS}` if you changed it yourself.",
            )
    config = _config(folder / CONFIG, contents[CONFIG])
    model = Transformer(config)
    _fill(model, folder / WEIGHTS, contents[WEIGHTS])
    try:
        card = contents[CARD].decode()
    except UnicodeDecodeError:
        raise CheckpointError(folder / CARD, "it is not UTF-8 text", "Save it as UTF-8.") from None
    return Checkpoint(
        folder=folder,
        config=config,
        model=model.to(device).eval().requires_grad_(False),
        tokenizer=contents[TOKENIZER],
        card=card,
        digest=sums[WEIGHTS],
    )


def read_safetensors(path: Path, data: bytes | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file; a pickle in disguise or a damaged file is refused."""
    data = _read(path) if data is None else data
    if data.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        raise _pickle(path)
    try:
        return safetensors.torch.load(data)
    except Exception as error:  # the Rust reader has several error types, none of them public
        raise CheckpointError(
            path, f"it is not a readable safetensors file ({error})", "Fetch the model again."
        ) from None


def _config(path: Path, data: bytes) -> TransformerConfig:
    try:
        values = json.loads(data)
        if not isinstance(values, dict):
            raise ConfigError("an object with one key a setting is needed")
        return TransformerConfig.from_dict(values)
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(
            path, f"it describes no model ({error})", "Fetch the model again."
        ) from None


def _fill(model: Transformer, path: Path, data: bytes) -> None:
    """Copy the file's tensors into the model's parameters; names and shapes must be the same."""
    found: Mapping[str, Tensor] = read_safetensors(path, data)
    expected = dict(model.named_parameters())
    remedy = f"{WEIGHTS} and {CONFIG} do not belong together: fetch both again."
    for name in sorted(expected.keys() ^ found.keys()):
        problem = f"it lacks {name}" if name in expected else f"it has {name}, unknown to the model"
        raise CheckpointError(path, problem, remedy)
    with torch.no_grad():
        for name, parameter in expected.items():
            tensor = found[name]
            if tensor.shape != parameter.shape:
                raise CheckpointError(
                    path,
                    f"{name} has shape {list(tensor.shape)}, "
                    f"the configuration wants {list(parameter.shape)}",
                    remedy,
                )
            if not tensor.is_floating_point():
                raise CheckpointError(
                    path, f"{name} holds {tensor.dtype}, not real numbers", remedy
                )
            if not torch.isfinite(tensor).all():
                raise CheckpointError(path, f"{name} has values that are not finite", remedy)
            parameter.copy_(tensor)


def _read_sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS
    text = _read(path, limit=64 * 1024).decode("utf-8", "replace")
    sums: dict[str, str] = {}
    for line in text.splitlines():
        match = _SUM_LINE.fullmatch(line)
        if match is None or match[2] not in CONTENTS:
            raise CheckpointError(
                path,
                f"line {line[:100]!r} is not a digest of one of {', '.join(CONTENTS)}",
                f"Write it with `sha256sum {' '.join(CONTENTS)} > {SUMS}`.",
            )
        sums[match[2]] = match[1]
    for name in CONTENTS:
        if name not in sums:
            raise CheckpointError(path, f"it has no digest of {name}", "Fetch the model again.")
    return sums


def _read(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file; a link, a device, a missing or an oversized file is refused."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    remedy = "A checkpoint holds plain files only: copy the file itself into the folder."
    if path.is_symlink():
        raise CheckpointError(path, "it is a symbolic link", remedy)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise CheckpointError(
            path, "it is missing", f"A checkpoint folder holds {', '.join((*CONTENTS, SUMS))}."
        ) from None
    except OSError as error:
        raise CheckpointError(path, f"it cannot be read ({error.strerror})", remedy) from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError(path, "it is not a plain file", remedy)
        if status.st_size > limit:
            raise CheckpointError(path, f"it is larger than {limit:,} bytes", remedy)
        return file.read()


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def _pickle(path: Path) -> CheckpointError:
    return CheckpointError(
        path,
        "it is a pickle, and opening a pickle can run any code hidden in it",
        "Use the same weights as model.safetensors; this program opens no pickle.",
    )
