#!/usr/bin/env python3
"""Three positions, two heads: one attention sublayer, every number, with Python alone.

    python calculate.py                         position 3, step by step
    python calculate.py --position 2 --mask all --final-row edited
    python calculate.py --json                  all 24 states

"Attention Is All You Need", sections 3.2 (attention, heads) and 3.1 (residual connection,
LayerNorm). The weights are set by hand, so that every step can be followed with pencil and paper.
Nothing has to be installed, and nothing here is shared with the application: it is a second opinion
on its numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from itertools import product

# One row a position, four coordinates each.
X = [
    [1.0, 0.0, 1.0, 0.0],
    [0.0, 1.0, 0.0, 1.0],
    [1.0, 1.0, 0.0, 0.0],
]
EDITED_FINAL_ROW = [2.0, -1.0, 1.0, 0.0]

# A matrix that picks coordinates 1 and 2 of a row, and one that picks 3 and 4.
FIRST_HALF = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
SECOND_HALF = [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]

# Head 1 compares the first half and passes on the second; head 2 does the reverse.
HEADS = [
    {"W_Q": FIRST_HALF, "W_K": FIRST_HALF, "W_V": SECOND_HALF},
    {"W_Q": SECOND_HALF, "W_K": SECOND_HALF, "W_V": FIRST_HALF},
]

# After the heads are joined: the identity, which leaves the four coordinates as they are.
W_O = [
    [1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 1.0],
]
GAMMA = [1.0, 1.0, 1.0, 1.0]
BETA = [0.0, 0.0, 0.0, 0.0]
EPSILON = 1e-6


# ── The calculation ──────────────────────────────────────────────────────────────────────────────


def dot(a, b):
    """The dot product of two rows."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def row_times_matrix(row, matrix):
    """A row times a matrix: the dot product with each of its columns."""
    return [dot(row, column) for column in zip(*matrix, strict=True)]


def may_attend(query, key, mask):
    """Whether position `query` may look at position `key`; under the causal mask, not ahead."""
    return mask == "all" or key <= query


def attend(Q, K, V, query, mask, scaled):
    """What one query gets from one head. None stands where a key is blocked: it has no score.

    Q, K and V hold a row for each position; `query` counts from 0. Section 3.2.1, equation 1.
    """
    d_k = len(K[0])
    scores = [dot(Q[query], key) if may_attend(query, j, mask) else None for j, key in enumerate(K)]
    scaled_scores = [
        None if score is None else score / math.sqrt(d_k) if scaled else score for score in scores
    ]
    row_max = max(score for score in scaled_scores if score is not None)
    shifted = [None if score is None else score - row_max for score in scaled_scores]
    exponentials = [0.0 if power is None else math.exp(power) for power in shifted]
    denominator = sum(exponentials)
    weights = [exponential / denominator for exponential in exponentials]
    allowed = [j for j, score in enumerate(scores) if score is not None]
    output = [sum(weights[j] * V[j][c] for j in allowed) for c in range(len(V[0]))]
    return {
        "scores": scores,
        "scaled_scores": scaled_scores,
        "row_max": row_max,
        "shifted": shifted,
        "exponentials": exponentials,
        "denominator": denominator,
        "weights": weights,
        "output": output,
    }


def layer_norm(row):
    """Mean, variance and the normalised row. The variance divides by 4, not 3; ε is in the root."""
    mean = sum(row) / len(row)
    variance = sum((x - mean) ** 2 for x in row) / len(row)
    root = math.sqrt(variance + EPSILON)
    normalised = [g * (x - mean) / root + b for g, x, b in zip(GAMMA, row, BETA, strict=True)]
    return mean, variance, normalised


def calculate(final_row="original", mask="causal", scaled=True, position=3):
    """One position's whole calculation, as a dictionary; `position` counts from 1."""
    inputs = [*X[:-1], EDITED_FINAL_ROW if final_row == "edited" else X[-1]]
    query = position - 1
    heads = []
    for head in HEADS:
        Q, K, V = (
            [row_times_matrix(row, head[name]) for row in inputs] for name in ("W_Q", "W_K", "W_V")
        )
        heads.append({"Q": Q, "K": K, "V": V, **attend(Q, K, V, query, mask, scaled)})
    concat = [number for head in heads for number in head["output"]]
    output = row_times_matrix(concat, W_O)
    residual_sum = [x + o for x, o in zip(inputs[query], output, strict=True)]
    mean, variance, normalised = layer_norm(residual_sum)
    return {
        "final_row": final_row,
        "mask": mask,
        "scaled": scaled,
        "position": position,
        "X": inputs,
        "heads": heads,
        "concat": concat,
        "output": output,
        "residual_sum": residual_sum,
        "mean": mean,
        "variance": variance,
        "layer_norm": normalised,
    }


def all_states():
    """The 24 states: final row × mask × scaling × position."""
    choices = product(("original", "edited"), ("causal", "all"), (True, False), (1, 2, 3))
    return [calculate(*choice) for choice in choices]


def as_json(states):
    """The states as JSON, one a line, numbers in full precision; null where a key is blocked."""
    lines = ",\n".join("  " + json.dumps(state, allow_nan=False) for state in states)
    return (
        f'{{\n"example": "three_positions",\n"epsilon": {EPSILON!r},\n"states": [\n{lines}\n]\n}}'
    )


# ── The explanation ──────────────────────────────────────────────────────────────────────────────

PLAIN = {"bold": "", "soft": "", "query": "", "key": "", "value": "", "weight": "", "end": ""}
COLOURED = {
    "bold": "\033[1m",
    "soft": "\033[2m",
    "query": "\033[34m",
    "key": "\033[33m",
    "value": "\033[32m",
    "weight": "\033[35m",
    "end": "\033[0m",
}


def number(x, places=6):
    """A number for reading: short where that is all of it, else few places; a real minus sign."""
    text = f"{x:.{places}f}"
    if float(text) == x:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "0") else text.replace("-", "−")


def vector(row):
    """A row in brackets."""
    return "(" + ", ".join(number(x) for x in row) + ")"


def bar(share):
    """A bar of up to 20 characters, to the eighth of one."""
    eighths = round(share * 160)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


class Story:
    """Prints a state as a sequence of steps."""

    def __init__(self, state, colours):
        self.state = state
        self.colours = colours
        self.step = 0

    def paint(self, role, text):
        """The text in the colour of its role."""
        return f"{self.colours[role]}{text}{self.colours['end']}"

    def heading(self, title):
        """The next step's number and title."""
        self.step += 1
        print(f"\n{self.paint('bold', f'{self.step}. {title}')}")

    def say(self, text):
        """A sentence between the numbers."""
        print(f"   {self.paint('soft', text)}")

    def tell(self):
        """The whole calculation."""
        state = self.state
        position = state["position"]
        print(self.paint("bold", "Three positions, two heads"))
        print(
            f"position {position} · final row {state['final_row']} · mask {state['mask']} · "
            f"{'divided by √2' if state['scaled'] else 'not divided by √2'}"
        )
        self.inputs()
        for place, head in enumerate(state["heads"], start=1):
            self.head(place, head)
        self.join()
        self.normalise()
        self.compare()

    def inputs(self):
        """Step 1."""
        self.heading("The inputs, one row a position")
        for place, row in enumerate(self.state["X"], start=1):
            here = place == self.state["position"]
            line = f"{'▸' if here else ' '} x{place}  " + "".join(f"{number(x):>5}" for x in row)
            print("  " + (self.paint("bold", line) if here else line))
        self.say(f"▸ marks position {self.state['position']}, which asks the questions below.")

    def head(self, place, head):
        """A head: project, compare, share out, mix."""
        query = self.state["position"] - 1
        first, second = ("1 and 2", "3 and 4") if place == 1 else ("3 and 4", "1 and 2")
        self.heading(f"Head {place} projects")
        self.say(f"Queries and keys are coordinates {first}, values are coordinates {second}.")
        for j in range(len(X)):
            asks = f"q{j + 1} = {vector(head['Q'][j])}"
            asks = self.paint("query" if j == query else "soft", f"{asks:<16}")
            key = self.paint("key", f"{f'k{j + 1} = ' + vector(head['K'][j]):<16}")
            value = self.paint("value", f"v{j + 1} = {vector(head['V'][j])}")
            print(f"     {asks}{key}{value}")
        self.heading(f"Head {place} compares: the query times each key")
        for j, key in enumerate(head["K"]):
            if head["scores"][j] is None:
                blocked = f"blocked: position {j + 1} lies in position {query + 1}'s future"
                print(f"     key {j + 1}  {self.paint('soft', blocked)}")
                continue
            terms = " + ".join(
                f"{self.paint('query', factor(q))}·{self.paint('key', factor(k))}"
                for q, k in zip(head["Q"][query], key, strict=True)
            )
            line = f"     key {j + 1}  {terms} = {number(head['scores'][j])}"
            if self.state["scaled"]:
                line += f",  divided by √2: {number(head['scaled_scores'][j])}"
            print(line)
        self.share(place, head)
        terms = " + ".join(
            f"{self.paint('weight', number(weight))}·{self.paint('value', vector(value))}"
            for weight, value, score in zip(head["weights"], head["V"], head["scores"], strict=True)
            if score is not None
        )
        self.heading(f"Head {place} mixes the values in these shares")
        print(f"     {terms}\n     = {self.paint('bold', vector(head['output']))}")

    def share(self, place, head):
        """The softmax."""
        self.heading(f"Head {place} shares out: softmax over the keys that are not blocked")
        self.say(
            f"Subtract the largest score, {number(head['row_max'])}, which changes no weight; "
            "take e to the power;"
        )
        self.say(f"divide by the sum, {number(head['denominator'])}.")
        for j, shifted in enumerate(head["shifted"]):
            if shifted is None:
                print(f"     key {j + 1}  {self.paint('soft', 'blocked')}")
                continue
            power = f"e^{number(shifted)}"
            weight = head["weights"][j]
            print(
                f"     key {j + 1}  {power:<11} = {number(head['exponentials'][j]):<8}  weight "
                f"{self.paint('weight', f'{number(weight):<8}  {bar(weight)}')}"
            )

    def join(self):
        """Concatenation, W_O and the residual connection."""
        state = self.state
        self.heading("Join the heads, and add the row that came in")
        self.say("W_O is the identity here: the joined coordinates pass through as they are.")
        print(f"     joined       {vector(state['output'])}")
        print(f"     came in      {vector(state['X'][state['position'] - 1])}")
        print(f"     sum          {self.paint('bold', vector(state['residual_sum']))}")

    def normalise(self):
        """LayerNorm."""
        state = self.state
        self.heading("LayerNorm over the four coordinates of this position")
        print(f"     mean         {number(state['mean'])}")
        print(f"     variance     {number(state['variance'])}   (sum of squares divided by 4)")
        print(f"     normalised   {self.paint('bold', vector(state['layer_norm']))}")

    def compare(self):
        """What the other final row would have done."""
        state = self.state
        other = "original" if state["final_row"] == "edited" else "edited"
        twin = calculate(other, state["mask"], state["scaled"], state["position"])
        difference = max(
            abs(a - b) for a, b in zip(state["layer_norm"], twin["layer_norm"], strict=True)
        )
        same = [head["output"] for head in state["heads"]] == [
            head["output"] for head in twin["heads"]
        ] and state["layer_norm"] == twin["layer_norm"]
        self.heading(f"And with the {other} final row, {vector(twin['X'][-1])}?")
        if same:
            print(
                "     Identical to the last bit: the final row is blocked, so it has no part here."
            )
        elif state["position"] == len(X):
            print(f"     Changed by up to {number(difference)}: the final row is its own input.")
        else:
            print(f"     Changed by up to {number(difference)}: this position may attend to it.")


def factor(x):
    """A number inside a product: in brackets where it is negative."""
    return f"({number(x)})" if x < 0 else number(x)


def main():
    """Read the choices and print."""
    parser = argparse.ArgumentParser(
        description="One attention sublayer with three positions and two heads, step by step."
    )
    parser.add_argument("--position", type=int, choices=(1, 2, 3), default=3)
    parser.add_argument("--final-row", choices=("original", "edited"), default="original")
    parser.add_argument("--mask", choices=("causal", "all"), default="causal")
    parser.add_argument("--unscaled", action="store_true", help="do not divide the scores by √2")
    parser.add_argument("--json", action="store_true", help="print all 24 states as JSON")
    choices = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    if choices.json:
        print(as_json(all_states()))
        return
    colourful = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    state = calculate(choices.final_row, choices.mask, not choices.unscaled, choices.position)
    Story(state, COLOURED if colourful else PLAIN).tell()


if __name__ == "__main__":
    main()
