"""The command line: `explorable-attention serve`, and what later modules add."""

from __future__ import annotations

from typing import Annotated, Any

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


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
