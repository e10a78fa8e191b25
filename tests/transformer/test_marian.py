"""Marian folders both ways, held to Hugging Face's transformers on random weights."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest
import safetensors.torch
import torch
from sentencepiece import SentencePieceProcessor

from app.transformer import ctranslate, marian
from app.transformer.checkpoint import CheckpointError
from app.transformer.config import ConfigError, TransformerConfig
from app.transformer.decoding import SearchOptions, search
from app.transformer.prepared import PreparedTransformer
from app.transformer.steps import CachedSteps
from app.transformer.vocabulary import pieces_of
from tests.transformer.conftest import SENTENCES, random_model, train_spm

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ctranslate2
    import transformers
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def hugging_face_folder(folder: Path, activation: str = "swish") -> Path:
    """A folder in the form of the OPUS-MT models, with random weights: the padding token starts the
    decoder, its embedding is zero, END is 0, and each language has a SentencePiece model.
    """
    folder.mkdir()
    source = train_spm(SENTENCES[:2] * 3 + SENTENCES[4:5] * 3, 90)
    target = train_spm(SENTENCES[2:4] * 3 + SENTENCES[5:6] * 3, 90)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    pieces = ["</s>", "<unk>"]
    for piece in pieces_of(source) + pieces_of(target):
        if piece not in ("<s>", *pieces):
            pieces.append(piece)
    pieces.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    pad = len(pieces) - 1
    torch.manual_seed(3)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=len(pieces),
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            activation_function=activation,
            scale_embedding=True,
            max_position_embeddings=64,
            pad_token_id=pad,
            eos_token_id=0,
            decoder_start_token_id=pad,
            forced_eos_token_id=None,
            bad_words_ids=None,
            init_std=0.3,
        )
    ).eval()
    with torch.no_grad():
        model.model.shared.weight[pad] = 0
        model.final_logits_bias.copy_(torch.randn(1, len(pieces)))
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "layer_norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    return folder


@pytest.fixture(scope="module", params=["swish", "relu"])
def opus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hugging_face_folder(tmp_path_factory.mktemp("hf") / "opus", request.param)


def hugging_face(folder: Path) -> tuple[MarianMTModel, MarianTokenizer]:
    model = MarianMTModel.from_pretrained(folder).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends sacremoses
        return model, MarianTokenizer.from_pretrained(folder)


TEXTS = ["The cat is playing.", "Where is the garden of the children?", "xyz"]


def test_import_gives_the_same_logits_and_tokens(opus: Path) -> None:
    theirs, their_tokenizer = hugging_face(opus)
    imported = marian.read(opus)
    spm = SentencePieceProcessor(model_proto=imported.tokenizer)
    ids = json.loads((opus / "vocab.json").read_text())
    order = [ids.get(piece, ids["<pad>"]) for piece in pieces_of(imported.tokenizer)]
    target = [5, 17, 40, 8]
    for text in TEXTS:
        source = [*spm.EncodeAsIds(text), 3]
        assert [order[i] for i in source] == their_tokenizer(text)["input_ids"]
        with torch.no_grad():
            wanted = theirs(
                input_ids=torch.tensor([[order[i] for i in source]]),
                decoder_input_ids=torch.tensor([[ids["<pad>"], *(order[i] for i in target)]]),
            ).logits[0]
            logits = imported.model(torch.tensor([source]), torch.tensor([[2, *target]]))[0]
        columns = [i for i in range(len(order)) if i != 2]  # START is not in Marian's vocabulary
        difference = logits[:, columns] - wanted[:, [order[i] for i in columns]]
        assert difference.abs().max() < 1e-4
        assert torch.softmax(logits, -1)[:, 2].max() == 0


def beams_of(
    model: MarianMTModel, source: list[int], beam_size: int
) -> list[tuple[list[int], float]]:
    """Hugging Face's hypotheses and their log-probabilities, by the rules of decoding.py, α = 0."""
    config = model.config
    output = model.generate(
        torch.tensor([source]),
        num_beams=beam_size,
        num_return_sequences=beam_size,
        early_stopping=True,
        length_penalty=0.0,
        max_new_tokens=20,
        suppress_tokens=sorted(
            {config.pad_token_id, 1, config.decoder_start_token_id} - {config.eos_token_id}
        ),
        bad_words_ids=None,
        forced_eos_token_id=None,
        return_dict_in_generate=True,
        output_scores=True,
        do_sample=False,
    )
    results = []
    for row, score in zip(output.sequences.tolist(), output.sequences_scores.tolist(), strict=True):
        tokens = row[1:]
        if config.eos_token_id in tokens:
            tokens = tokens[: tokens.index(config.eos_token_id) + 1]
        else:
            while tokens and tokens[-1] == config.pad_token_id:
                tokens.pop()
        results.append((tokens, score))
    return results


def test_import_gives_the_same_beams(opus: Path) -> None:
    theirs, their_tokenizer = hugging_face(opus)
    imported = marian.read(opus)
    ids = json.loads((opus / "vocab.json").read_text())
    order = [ids.get(piece, ids["<pad>"]) for piece in pieces_of(imported.tokenizer)]
    spm = SentencePieceProcessor(model_proto=imported.tokenizer)
    steps = CachedSteps(PreparedTransformer(imported.model))
    for text in TEXTS:
        source = [*spm.EncodeAsIds(text), 3]
        options = SearchOptions(beam_size=4, alpha=0.0, max_extra=20 - len(source))
        (found,) = search(steps, imported.model.config, [source], options)
        wanted = beams_of(theirs, their_tokenizer(text)["input_ids"], 4)
        assert [[order[t] for t in h.tokens] for h in found.hypotheses] == [t for t, _ in wanted]
        for hypothesis, (_, score) in zip(found.hypotheses, wanted, strict=True):
            assert hypothesis.log_prob == pytest.approx(score, abs=1e-4)


@pytest.fixture(scope="module")
def ours(tokenizer_model: bytes) -> marian.Marian:
    config = TransformerConfig(
        vocab_size=len(pieces_of(tokenizer_model)),
        d_model=32,
        N_encoder=3,
        N_decoder=2,
        h=4,
        d_ff=64,
        max_len=64,
    )
    return marian.Marian(random_model(config, seed=5), tokenizer_model)


def test_export_is_what_transformers_calculates(ours: marian.Marian, tmp_path: Path) -> None:
    marian.write(tmp_path, ours.model, ours.tokenizer, source="en", target="de")
    theirs, their_tokenizer = hugging_face(tmp_path)
    spm = SentencePieceProcessor(model_proto=ours.tokenizer)
    steps = CachedSteps(PreparedTransformer(ours.model))
    for text in [*TEXTS, "Grüße an 猫 😀 & <b>"]:
        source = [*spm.EncodeAsIds(text), 3]
        assert their_tokenizer(text)["input_ids"] == source
        assert their_tokenizer.decode(source, skip_special_tokens=True) == spm.DecodeIds(source)
        target = [2, 9, 300, 50]
        with torch.no_grad():
            wanted = theirs(
                input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])
            ).logits
        logits = ours.model(torch.tensor([source]), torch.tensor([target]))
        assert (logits - wanted).abs().max() < 1e-4
        options = SearchOptions(beam_size=4, alpha=0.0, max_extra=20 - len(source))
        (found,) = search(steps, ours.model.config, [source], options)
        beams = beams_of(theirs, source, 4)
        assert [list(h.tokens) for h in found.hypotheses] == [tokens for tokens, _ in beams]


def test_export_and_import_give_the_model_back(ours: marian.Marian, tmp_path: Path) -> None:
    marian.write(tmp_path, ours.model, ours.tokenizer)
    back = marian.read(tmp_path)
    assert pieces_of(back.tokenizer) == pieces_of(ours.tokenizer)
    assert back.model.output_bias is not None
    assert not back.model.output_bias.any()
    for name, parameter in ours.model.named_parameters():
        assert torch.equal(parameter, back.model.get_parameter(name)), name


def test_ctranslate2_finds_the_same_beams(ours: marian.Marian, tmp_path: Path) -> None:
    ctranslate.write(tmp_path, ours.model, ours.tokenizer)
    pieces = pieces_of(ours.tokenizer)
    translator = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    spm = SentencePieceProcessor(model_proto=ours.tokenizer)
    steps = CachedSteps(PreparedTransformer(ours.model))
    for text in TEXTS:
        source = [*spm.EncodeAsIds(text), 3]
        (found,) = search(
            steps, ours.model.config, [source], SearchOptions(1, 0.0, max_extra=20 - len(source))
        )
        (result,) = translator.translate_batch(
            [[pieces[i] for i in source]],
            beam_size=1,
            max_decoding_length=20,
            return_scores=True,
            suppress_sequences=[["<pad>"], ["<s>"], ["<unk>"]],
        )
        tokens = [pieces[i] for i in found.best.tokens if i != 3]
        assert result.hypotheses[0] == tokens


def broken(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_a_pickle_is_refused_by_name(opus: Path, tmp_path: Path) -> None:
    folder = broken(opus, tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: it is a pickle") as caught:
        marian.read(folder)
    assert "model.safetensors" in caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalize_before": True}, "normalize_before"),
        ({"activation_function": "gelu"}, "activation_function"),
        ({"decoder_ffn_dim": 12}, "encoder_ffn_dim and decoder_ffn_dim differ"),
        ({"model_type": "bart"}, "model_type"),
        ({"vocab_size": 7, "decoder_vocab_size": 7}, "vocab.json"),
        ({"encoder_layers": 3}, "lacks model.encoder.layers.2"),
        ({"encoder_ffn_dim": 12, "decoder_ffn_dim": 12}, "has shape"),
        ({"d_model": "many"}, "d_model"),
    ],
)
def test_another_architecture_is_refused(
    opus: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    folder = broken(opus, tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(CheckpointError, match=message):
        marian.read(folder)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_damaged_or_missing_file_is_named(opus: Path, tmp_path: Path, name: str) -> None:
    folder = broken(opus, tmp_path)
    (folder / name).write_bytes(b"\x00\xff damaged")
    with pytest.raises(CheckpointError):
        marian.read(folder)
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        marian.read(folder)


def test_weights_that_are_not_finite_are_refused(opus: Path, tmp_path: Path) -> None:
    folder = broken(opus, tmp_path)
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    weights["model.encoder.layers.0.fc1.weight"][0, 0] = float("nan")
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="not finite"):
        marian.read(folder)


def test_what_marian_cannot_express_is_refused(tmp_path: Path, tokenizer_model: bytes) -> None:
    config = TransformerConfig(
        vocab_size=340, d_model=32, N_encoder=1, N_decoder=1, h=4, d_ff=64, layer_norm_epsilon=1e-6
    )
    with pytest.raises(ConfigError, match="layer_norm_epsilon"):
        marian.write(tmp_path, random_model(config), tokenizer_model)
