"""How fast the translator is beside its peers: the same weights, sentences, beam and stopping rule.

    python benchmarks/translation_speed.py

Needs `pip install .[peers]`. Each engine runs in a process of its own, one after another, with 1
and with 2 threads: sentences one by one (the mean of all), and a batch of 64. Every sentence counts
with the fastest of several rounds, and so does the batch: what other work on the machine costs is
not the engine's. α is 0 because the engines' length penalties differ; every engine stops a sentence
when beam-size hypotheses are finished. A row says how many of the 64 best translations are the same
as our own float32 ones, and CPU time beside the wall clock's, which shows whether the machine was
busy even so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's app

MODEL = Path(__file__).resolve().parent.parent / "model_weights" / "en-de"
BEAM_SIZE = 4
ROUNDS = 8  # of the sentences
BATCH_ROUNDS = 3
ENGINES = (
    "ours float32",
    "ours bfloat16",
    "transformers float32",
    "ctranslate2 float32",
    "ctranslate2 int8",
)
SENTENCES = (
    "The children are playing in the garden.",
    "I have never seen such a beautiful sunset in my life.",
    "Could you please tell me how to get to the railway station?",
    "He forgot to close the window before he went to bed.",
    "My sister has been learning German for three years.",
    "We should leave early, because the road will be full of cars.",
    "It was raining so heavily that we decided to stay at home.",
    "She told me that she would call me as soon as she arrived.",
    "The book that you gave me is the best one I have read this year.",
    "Nobody knew why the old man had sold his house.",
    "If I had more time, I would visit my friends more often.",
    "The teacher asked the students to write a letter to their parents.",
    "There is a small shop at the corner where you can buy bread.",
    "Tom wanted to know whether Mary had already eaten dinner.",
    "I do not think that this is the right moment to talk about money.",
    "They have lived in the same village since they were born.",
)


def main() -> None:
    """Run every engine in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?", default=MODEL)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.model, options.threads[0])))
        return
    with tempfile.TemporaryDirectory() as folder:
        export(options.model, Path(folder))
        rows = []
        for threads in options.threads:
            for engine in options.engines:
                rows.append(in_a_process(options.model, engine, folder, threads))
                print(".", end="", flush=True, file=sys.stderr)
    print(table(rows, options.model))


def export(model: Path, folder: Path) -> None:
    """Write the model for each peer."""
    from app.transformer import checkpoint, ctranslate, marian

    loaded = checkpoint.load(model)
    marian.write(folder / "transformers", loaded.model, loaded.tokenizer)
    for quantization in ("float32", "int8"):
        ctranslate.write(
            folder / f"ctranslate2 {quantization}", loaded.model, loaded.tokenizer, quantization
        )


def in_a_process(model: Path, engine: str, folder: str, threads: int) -> dict[str, Any]:
    """One engine's figures, from a fresh process that knows its threads from the start."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, str(model), "--threads", str(threads)]
    result = subprocess.run(
        [*command, "--one", engine, folder],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


def measure(engine: str, folder: str, model: Path, threads: int) -> dict[str, Any]:
    """Translate with one engine, in this process."""
    from app.transformer import checkpoint
    from app.translation.tokenizer import Tokenizer

    loaded = checkpoint.load(model)
    tokenizer = Tokenizer(loaded.tokenizer)
    sources = [tokenizer.encode(sentence) for sentence in SENTENCES]
    name, precision = engine.split()
    start = {"ours": ours, "transformers": transformers, "ctranslate2": ctranslate2}[name]
    translate = start(loaded, Path(folder), precision, threads)
    batch = sources * (64 // len(sources))
    outputs = translate(batch)  # warms up, and is checked
    for source in sources:
        translate([source])
    rounds = [[timed(lambda s=s: translate([s])) for s in sources] for _ in range(ROUNDS)]  # type: ignore[misc]
    one = [min(times) for times in zip(*rounds, strict=True)]
    batch_seconds, batch_cpu_seconds = min(
        timed(lambda: translate(batch)) for _ in range(BATCH_ROUNDS)
    )
    tokens = sum(len(output) for output in outputs)
    return {
        "engine": engine,
        "threads": threads,
        "outputs": [tokenizer.decode(output) for output in outputs],
        "tokens": tokens / len(outputs),
        "one_ms": 1e3 * statistics.fmean(wall for wall, _ in one),
        "one_cpu_ms": 1e3 * statistics.fmean(cpu for _, cpu in one),
        "batch_ms": 1e3 * batch_seconds,
        "batch_cpu_ms": 1e3 * batch_cpu_seconds,
    }


Translate = Callable[[list[list[int]]], list[list[int]]]


def ours(loaded: Any, folder: Path, precision: str, threads: int) -> Translate:
    """app.transformer's own search."""
    import torch

    from app.transformer.decoding import SearchOptions, search
    from app.transformer.prepared import PreparedTransformer
    from app.transformer.steps import CachedSteps

    torch.set_num_threads(threads)
    steps = CachedSteps(PreparedTransformer(loaded.model, precision))  # type: ignore[arg-type]
    options = SearchOptions(beam_size=BEAM_SIZE, alpha=0.0)

    def translate(sources: list[list[int]]) -> list[list[int]]:
        found = search(steps, loaded.config, sources, options)
        return [list(result.best.tokens) for result in found]

    return translate


def transformers(loaded: Any, folder: Path, precision: str, threads: int) -> Translate:
    """transformers' MarianMTModel.generate."""
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(threads)
    model = MarianMTModel.from_pretrained(folder / "transformers").eval()
    config = loaded.config

    def translate(sources: list[list[int]]) -> list[list[int]]:
        n = max(map(len, sources))
        ids = torch.tensor([[*s, *[config.pad_id] * (n - len(s))] for s in sources])
        with torch.inference_mode():
            output = model.generate(
                ids,
                attention_mask=(ids != config.pad_id).long(),
                num_beams=BEAM_SIZE,
                early_stopping=True,
                length_penalty=0.0,
                max_new_tokens=n + 50,
                max_length=None,
            )
        special = (config.pad_id, config.bos_id)
        return [[token for token in row if token not in special] for row in output.tolist()]

    return translate


def ctranslate2(loaded: Any, folder: Path, precision: str, threads: int) -> Translate:
    """CTranslate2's translator."""
    import ctranslate2 as engine

    from app.transformer.vocabulary import pieces_of

    translator = engine.Translator(
        str(folder / f"ctranslate2 {precision}"),
        intra_threads=threads,
        compute_type=precision,
    )
    pieces = pieces_of(loaded.tokenizer)
    ids = {piece: i for i, piece in enumerate(pieces)}
    never = [
        [pieces[i]] for i in (loaded.config.pad_id, loaded.config.unk_id, loaded.config.bos_id)
    ]

    def translate(sources: list[list[int]]) -> list[list[int]]:
        results = translator.translate_batch(
            [[pieces[i] for i in source] for source in sources],
            beam_size=BEAM_SIZE,
            length_penalty=0.0,
            max_decoding_length=max(map(len, sources)) + 50,
            suppress_sequences=never,
        )
        return [
            [*(ids[token] for token in result.hypotheses[0]), loaded.config.eos_id]
            for result in results
        ]

    return translate


def timed(function: Callable[[], object]) -> tuple[float, float]:
    """Seconds of wall clock and of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - cpu


def table(rows: list[dict[str, Any]], model: Path) -> str:
    """The figures in Markdown, with what they depend on."""
    import ctranslate2 as engine
    import torch
    import transformers as peer

    ours_outputs = rows[0]["outputs"]
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {processor()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, torch {torch.__version__}, transformers {peer.__version__}, "
        f"CTranslate2 {engine.__version__}; `{model}`, beam {BEAM_SIZE}, on average "
        f"{rows[0]['tokens']:.1f} output tokens; times in milliseconds, CPU time in brackets",
        "",
        "| engine | threads | one sentence | batch of 64 | same translations |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        same = sum(a == b for a, b in zip(row["outputs"], ours_outputs, strict=True))
        lines.append(
            f"| {row['engine']} | {row['threads']} | {row['one_ms']:.1f} ({row['one_cpu_ms']:.1f})"
            f" | {row['batch_ms']:.0f} ({row['batch_cpu_ms']:.0f}) | {same} of 64 |"
        )
    return "\n".join(lines)


def processor() -> str:
    """The CPU's name, and its matrix units."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    name = next(line for line in text.splitlines() if line.startswith("model name"))
    units = [unit for unit in ("avx512f", "avx512_bf16", "amx_bf16") if unit in text]
    return f"{name.split(':')[1].strip()} ({', '.join(units)})"


if __name__ == "__main__":
    main()
