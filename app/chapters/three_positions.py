"""Chapter 2: three positions, four coordinates, two heads, every weight set by hand. §3.2, §3.1.

The numbers are those of a worked example (`worked_examples/three_positions`, or any other folder
there) with the reader's edits. Nothing is remembered between requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from app.chapters.calculation import Calculation, WorkedExample
from app.chapters.contract import Download, Panel, Parsed
from app.chapters.three_positions_downloads import (
    as_csv,
    as_json,
    as_png,
    as_svg,
    states_as_csv,
)
from app.chapters.three_positions_lesson import Lesson
from app.chapters.three_positions_prose import states_of_the_prose
from app.chapters.three_positions_state import Languages, Parameters
from app.chapters.three_positions_sweep import figure, sweep
from app.chapters.worked_example import WorkedExampleError, available
from app.paths import WORKED_EXAMPLES

SLUG: Final = "three-positions"
EXAMPLE: Final = "three_positions"
EXAMPLE_FILES: Final = (
    (f"{SLUG}/calculate.py", "The calculation as a Python script"),
    (f"{SLUG}/states.json", "24 states as JSON"),
)
"""What lies in the chapter's own example's folder, and is the same in every state."""
PROJECTIONS: Final = frozenset({"identity", "swapped", "averaged"})
"""The output projections that the prose compares."""


class ThreePositions:
    """The chapter, as `app.chapters.contract.Chapter` describes it."""

    slug = SLUG
    number = 2
    title = "Three positions, two heads"
    section = "§3.2"
    minutes = 15
    summary = (
        "Change a future input and see exactly which numbers follow and which stay the same to the "
        "last bit. Two heads, every weight set by hand, every number open to inspection."
    )
    template = "chapters/three-positions.html"
    uses_plotly = False  # loaded by the one figure that draws with it, once somebody opens it
    panels = (
        Panel("bench", "The bench: edit, and see every number follow", 3840),
        Panel("steps", "One step at a time", 800),
        Panel("sweep", "Move one input and see who notices", 380),
        Panel("reading", "The lesson in words", 5000),
        Panel("quiz", "Check yourself", 900),
    )

    def __init__(
        self, examples: Mapping[str, WorkedExample], folder: Path = WORKED_EXAMPLES
    ) -> None:
        """`examples` by their names in `folder`; `EXAMPLE` is the one that the prose is about."""
        self._folder = folder
        others = [example for slug, example in examples.items() if slug != EXAMPLE]
        self.languages = Languages([examples[EXAMPLE], *others])
        self.downloads = (
            Download(
                "worked-example.toml",
                "application/toml",
                "The worked example’s numbers",
                self._toml,
            ),
            Download("states.csv", "text/csv; charset=utf-8", "24 states as CSV", _states),
            Download("state.json", "application/json", "This state as JSON", self._json),
            Download("state.csv", "text/csv; charset=utf-8", "This state as CSV", self._csv),
            Download("weights.svg", "image/svg+xml", "The attention rows as SVG", self._svg),
            Download("weights.png", "image/png", "The attention rows as PNG", self._png),
            Download("sweep.json", "application/json", "The moved input for Plotly", self._sweep),
        )
        files = [(f"{SLUG}/{made.name}", made.title) for made in self.downloads]
        self._files = (*EXAMPLE_FILES, *files)
        self._said = states_of_the_prose(self.languages)

    def parse(self, query: Sequence[tuple[str, str]]) -> Parsed[Parameters]:
        """See `Languages.parse`."""
        return self.languages.parse(query)

    def query(self, parameters: Parameters) -> str:
        """See `Languages.write`."""
        return self.languages.write(parameters)

    def calculate(self, parameters: Parameters) -> Calculation:
        """Every number, from the inputs to LayerNorm."""
        return self.languages.of(parameters).calculate(parameters)

    def context(self, parsed: Parsed[Parameters]) -> dict[str, Any]:
        """One object, whose parts are made on demand: a fragment pays for its own panel alone."""
        return {"lesson": Lesson(self.languages, parsed, self._said, self._files)}

    def api(self, parameters: Parameters) -> dict[str, Any]:
        """The JSON contract: arrays of rows, full precision, blocked scores null."""
        now = self.calculate(parameters)
        return {
            "inputs": {
                "example": parameters.example,
                "X": now.X.tolist(),
                "mask": now.mask,
                "scaled": now.scaled,
                "W_O": now.W_O.W_O.tolist(),
                "gamma": now.gamma.tolist(),
                "beta": now.beta.tolist(),
                "epsilon": now.epsilon,
            },
            "heads": [
                {
                    "Q": head.Q.tolist(),
                    "K": head.K.tolist(),
                    "V": head.V.tolist(),
                    "scores": head.scores.tolist(),
                    "scaled_scores": head.scaled_scores.tolist(),
                    "masked_scores": [
                        [score if allowed else None for score, allowed in zip(*row, strict=True)]
                        for row in zip(head.masked_scores.tolist(), head.mask.tolist(), strict=True)
                    ],
                    "weights": head.weights.tolist(),
                    "output": head.output.tolist(),
                }
                for head in now.heads
            ],
            "concat": now.concat.tolist(),
            "output": now.output.tolist(),
            "residual_sum": now.residual_sum.tolist(),
            "mean": now.mean.tolist(),
            "variance": now.variance.tolist(),
            "layer_norm": now.layer_norm.tolist(),
        }

    def _toml(self, parameters: Parameters) -> bytes:
        return (self._folder / parameters.example / "example.toml").read_bytes()

    def _json(self, parameters: Parameters) -> bytes:
        return as_json(self.api(parameters))

    def _csv(self, parameters: Parameters) -> bytes:
        return as_csv(self.calculate(parameters))

    def _sweep(self, parameters: Parameters) -> bytes:
        calculate = self.languages.of(parameters).calculate
        return figure(sweep(parameters, calculate(parameters), calculate)).encode()

    def _svg(self, parameters: Parameters) -> bytes:
        return as_svg(self.calculate(parameters))

    def _png(self, parameters: Parameters) -> bytes:
        return as_png(self.calculate(parameters))


def _states(_: Parameters) -> bytes:
    path = WORKED_EXAMPLES / EXAMPLE / "states.json"
    return states_as_csv(json.loads(path.read_text(encoding="utf-8")))


def load(folder: Path = WORKED_EXAMPLES) -> ThreePositions:
    """The chapter with every sound worked example in `folder`.

    Raises WorkedExampleError if its own is missing, refused, or not the one that the prose is
    about.
    """
    library = available(folder)
    own = library.examples.get(EXAMPLE)
    if own is None:
        for refusal in library.refused:
            if refusal.file.startswith(f"{EXAMPLE}/"):
                raise refusal
        raise WorkedExampleError(f"{EXAMPLE}/example.toml", "", "is missing")
    _check(own)
    return ThreePositions(library.examples, folder)


def _check(own: WorkedExample) -> None:
    """Whether the prose can speak of this example; raises WorkedExampleError if not."""
    n, d_model = own.X.shape
    sizes = n, d_model, own.h, own.W_V.shape[2]
    names = {choice.name for choice in own.output_projections}
    for key, sound, wanted in (
        ("X", sizes[:2] == (3, 4), "3 rows of 4 numbers"),
        ("heads", sizes[2:] == (2, 2), "2 heads with 2 columns in each W_V"),
        ("output_projections", names >= PROJECTIONS, f"all of {', '.join(sorted(PROJECTIONS))}"),
    ):
        if not sound:
            reason = f"expected {wanted}, of which the chapter’s prose speaks"
            raise WorkedExampleError(f"{EXAMPLE}/example.toml", key, reason)
