"""Every limit and switch, from the environment: `EXPLORABLE_ATTENTION_PORT=9000` and so on."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class Settings(BaseSettings):
    """What may differ between two places where the app runs. Each value says its unit and
    reason.
    """

    model_config = SettingsConfigDict(env_prefix="EXPLORABLE_ATTENTION_", frozen=True)

    host: str = "127.0.0.1"
    """Interface to listen on. Only this machine unless somebody asks for more."""

    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    """TCP port."""

    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes. Each loads its own models, so more than one is for machines with memory to
    spare."""

    public_url: str = ""
    """Scheme and host under which readers reach the app, such as `https://attention.example`, for
    the addresses in embed codes, oEmbed and the sitemap. Empty: as the request's Host header has
    it."""

    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ("*",)
    """Host names that are answered, separated by commas, `*.example.org` for subdomains. Any by
    default: the app keeps no cookies or accounts that a forged Host could steal."""

    forwarded_allow_ips: str = "127.0.0.1"
    """Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."""

    reload_templates: bool = False
    """Look for changed templates and static files at each request: for writing, slow for
    serving."""

    # Requests. The largest honest one, a 500-character text in percent-encoded UTF-8, has 6,000
    # bytes.
    max_head_bytes: Annotated[int, Field(ge=1024)] = 32_768
    """Request line and headers together, in bytes; the connection is answered 400 and closed
    beyond."""

    max_query_bytes: Annotated[int, Field(ge=256)] = 16_384
    """A URL's query, in bytes as sent; 414 beyond."""

    max_query_fields: Annotated[int, Field(ge=16)] = 512
    """Name–value pairs in a query; 400 beyond. A chapter with every cell of two 12 × 12 matrices
    fits."""

    max_field_chars: Annotated[int, Field(ge=64)] = 4_096
    """Decoded characters in one field; 400 beyond. Chapters set tighter limits of their own."""

    max_body_bytes: Annotated[int, Field(ge=0)] = 16_384
    """A request's body, in bytes; 413 beyond. Nothing here needs a body: everything is in the
    URL."""

    # Connections.
    keep_alive_seconds: Annotated[int, Field(ge=1)] = 30
    """An idle connection is kept for the next edit; longer than a reader's pause between two
    keys."""

    head_seconds: Annotated[float, Field(gt=0)] = 10.0
    """Request line and headers must be here in this time; the connection is closed otherwise."""

    shutdown_seconds: Annotated[int, Field(ge=0, le=4)] = 2
    """Open responses may finish in this time; the whole stop then stays under 5 seconds, on a busy
    machine too."""

    max_connections: Annotated[int, Field(ge=1)] = 2_048
    """Connections at once in a process; 503 beyond, instead of running out of memory."""

    # Caching and compression.
    compress_minimum_bytes: Annotated[int, Field(ge=0)] = 1_024
    """Smaller answers fit a network packet anyway."""

    zstd_level: Annotated[int, Field(ge=-7, le=22)] = 1
    """For pages and panels, compressed at each request: the fast end, so that an edit is not kept
    waiting."""

    brotli_quality: Annotated[int, Field(ge=0, le=11)] = 2
    """The same for clients without zstd. Static files are compressed once, at a high level."""

    gzip_level: Annotated[int, Field(ge=0, le=9)] = 5
    """For clients with neither, which are rare: a page a tenth smaller for about a millisecond."""

    # Translating.
    models: str = ""
    """Folder with the models, each a folder named by its languages, such as `en-de`. Empty: those
    that come with the app."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where the models calculate; `auto` takes CUDA, then MPS, then the CPU."""

    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Threads for one translation on a CPU. 0 chooses: one or two, because a sentence's matrices
    are too small for more."""

    translate_characters: Annotated[int, Field(ge=1, le=1300)] = 500
    """Longest text; about five long sentences. An address holds 1,300 at most."""

    translate_tokens: Annotated[int, Field(ge=2, le=1024)] = 128
    """Longest sentence in tokens, END included; attention's work grows with its square."""

    translate_beam_size: Annotated[int, Field(ge=1, le=32)] = 8
    """Widest beam; twice the paper's. Work and memory grow with it."""

    translate_waiting: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Requests that may wait for the model; 503 beyond."""

    translate_seconds: Annotated[float, Field(gt=0, le=600)] = 20.0
    """Longest wait for an answer, queue and calculation together; 503 beyond."""

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Accept `a.example, b.example` from the environment."""
        if isinstance(value, str):
            return tuple(part.strip().lower() for part in value.split(",") if part.strip())
        return value

    @field_validator("public_url")
    @classmethod
    def _no_trailing_slash(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("public_url must start with http:// or https://")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _query_fits_the_head(self) -> Self:
        if self.max_query_bytes >= self.max_head_bytes:
            raise ValueError("max_query_bytes must be smaller than max_head_bytes")
        return self
