"""The command line: `explorable-attention serve`, and what later modules add."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

app = typer.Typer(
    name="explorable-attention",
    help="“Attention Is All You Need” as pages whose every number can be changed.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def explorable_attention() -> None:
    """“Attention Is All You Need” as pages whose every number can be changed."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Interface to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port.", min=1, max=65535)] = None,
    workers: Annotated[int | None, typer.Option(help="Processes.", min=1, max=64)] = None,
) -> None:
    """Serve the pages. Options win over EXPLORABLE_ATTENTION_… in the environment."""
    from app.settings import Settings  # here, so that other commands start without the web
    from app.web.server import run

    chosen: dict[str, Any] = {"host": host, "port": port, "workers": workers}
    run(Settings(**{name: value for name, value in chosen.items() if value is not None}))


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A TOML file: model, data, optimiser, run.")],
    data: Annotated[
        Path | None, typer.Option(help="A folder with train.tsv or train.tsv.gz, and dev.tsv.")
    ] = None,
    output: Annotated[
        Path, typer.Option(help="The run's folder; a run that is in it goes on.")
    ] = Path("run"),
    steps: Annotated[int | None, typer.Option(help="In place of the file's.", min=1)] = None,
) -> None:
    """Train a model, or go on where a stopped or killed run was."""
    from app.training import command

    try:
        command.run(config, data=data, output=output, steps=steps)
    except command.FAILURES as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="A training run's folder.")],
    output: Annotated[Path, typer.Argument(help="The model's new folder, such as en-de.")],
    last: Annotated[int, typer.Option(help="How many of the newest snapshots.", min=1)] = 5,
    until: Annotated[int | None, typer.Option(help="None after this step.", min=1)] = None,
    card: Annotated[Path | None, typer.Option(help="A card.md to put beside it.")] = None,
) -> None:
    """Average a run's last snapshots, as §6.1 does, into a model that translates."""
    from app.training import command

    try:
        used = command.average_run(run, output, last=last, until=until, card=card)
    except command.FAILURES as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{output}: the mean of steps {', '.join(map(str, used))}")


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    file: Annotated[Path, typer.Argument(help="Tab-separated: source, then its references.")],
    beam_size: Annotated[int, typer.Option(help="1 is greedy search.", min=1, max=32)] = 4,
    alpha: Annotated[float, typer.Option(help="Length penalty of §6.1.", min=0, max=5)] = 0.6,
    limit: Annotated[int | None, typer.Option(help="The first lines only.", min=1)] = None,
    batch_size: Annotated[int, typer.Option(help="Sentences at a time.", min=1)] = 64,
    precision: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="Of weights and arithmetic.")
    ] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    output: Annotated[Path | None, typer.Option(help="Write the translations here.")] = None,
) -> None:
    """Score a model's translations with sacreBLEU: BLEU and chrF, with signatures."""
    from app.training import evaluation
    from app.transformer import checkpoint
    from app.transformer.decoding import SearchOptions
    from app.translation.tokenizer import Tokenizer, TokenizerError

    try:
        examples = evaluation.read_examples(file, limit)
        loaded = checkpoint.load(model, device=device)
        tokenizer = Tokenizer(loaded.tokenizer)
    except (evaluation.EvaluationError, checkpoint.CheckpointError, TokenizerError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    with typer.progressbar(length=len(examples), label="Translating", file=sys.stderr) as bar:
        result = evaluation.evaluate(
            loaded.model,
            tokenizer,
            examples,
            SearchOptions(beam_size=beam_size, alpha=alpha),
            precision=precision,
            batch_size=batch_size,
            progress=bar.update,
        )
    if output is not None:
        output.write_text("".join(f"{line}\n" for line in result.hypotheses), encoding="utf-8")
    scores = result.scores
    typer.echo(f"model      {model} ({loaded.digest[:12]})")
    typer.echo(f"search     beam size {beam_size}, alpha {alpha}, {precision}, {device}")
    typer.echo(f"sentences  {len(examples)}, {result.sentences_per_second:.1f} per second")
    typer.echo(f"BLEU       {scores.bleu:.2f}  {scores.bleu_signature}")
    typer.echo(f"chrF       {scores.chrf:.2f}  {scores.chrf_signature}")


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="A Marian (OPUS-MT) folder from Hugging Face.")],
    output: Annotated[Path, typer.Argument(help="The model's new folder, such as en-de.")],
) -> None:
    """Turn a Marian model into one of ours. Needs its model.safetensors; opens no pickle."""
    from app.transformer import checkpoint, marian

    try:
        imported = marian.read(source)
        card = (
            f"# {output.name}, imported\n\nConverted from the Marian model in a folder named "
            f"`{source.resolve().name}`. Data, licence, scores and intended use are those of its "
            "own card.\n"
        )
        checkpoint.save(output, imported.model, imported.tokenizer, card)
    except checkpoint.CheckpointError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{output}: {imported.model.config}")


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    output: Annotated[Path, typer.Argument(help="The folder to write.")],
    format: Annotated[
        Literal["marian", "ctranslate2"], typer.Option(help="For transformers, or CTranslate2.")
    ] = "marian",
    quantization: Annotated[
        Literal["float32", "int8", "bfloat16", "float16"], typer.Option(help="CTranslate2 only.")
    ] = "float32",
) -> None:
    """Write a model for transformers' MarianMTModel, or for CTranslate2."""
    from app.transformer import checkpoint, ctranslate, marian

    try:
        loaded = checkpoint.load(model)
        if format == "ctranslate2":
            ctranslate.write(output, loaded.model, loaded.tokenizer, quantization)
        else:
            names = loaded.folder.name.split("-")
            source, target = names if len(names) == 2 else ("", "")
            marian.write(output, loaded.model, loaded.tokenizer, source=source, target=target)
    except ImportError:
        typer.echo("error: this needs ctranslate2: pip install ctranslate2", err=True)
        raise typer.Exit(2) from None
    except (checkpoint.CheckpointError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{output}: written for {format}")


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
