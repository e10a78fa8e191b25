"""The three-position chapter: its numbers over the API, its sentences, its files."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest

from app.chapters.three_positions import EXAMPLE, ThreePositions, load
from app.chapters.three_positions_lesson import Lesson
from app.chapters.three_positions_state import Parameters
from app.chapters.three_positions_steps import TITLES, step
from app.chapters.worked_example import load as load_example
from app.paths import WORKED_EXAMPLES

CHAPTER = load()
DEFAULT = CHAPTER.languages.default()
EDITED = (*DEFAULT.x[:2], (2.0, -1.0, 1.0, 0.0))


def at(query: str) -> Parameters:
    parsed = CHAPTER.parse(parse_qsl(query, keep_blank_values=True))
    assert not parsed.problems
    return parsed.parameters


def lesson(query: str = "") -> Lesson:
    found = CHAPTER.context(CHAPTER.parse(parse_qsl(query, keep_blank_values=True)))["lesson"]
    assert isinstance(found, Lesson)
    return found


# ── The JSON contract ────────────────────────────────────────────────────────────────────────────


def test_the_published_numbers() -> None:
    """Known values of the worked example, to the digits that were published."""
    answer = CHAPTER.api(DEFAULT)
    head = answer["heads"][0]
    assert answer["inputs"]["X"] == [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]
    assert answer["inputs"]["mask"] == "causal"
    assert answer["inputs"]["scaled"] is True
    assert answer["inputs"]["epsilon"] == 1e-6
    np.testing.assert_allclose(head["weights"][2], [0.248255, 0.248255, 0.503490], atol=5e-7)
    np.testing.assert_allclose(
        answer["concat"][2], [0.248255, 0.248255, 0.666667, 0.666667], atol=5e-7
    )
    np.testing.assert_allclose(
        answer["residual_sum"][2], [1.248255, 1.248255, 0.666667, 0.666667], atol=5e-7
    )
    assert answer["mean"][2] == pytest.approx(0.957461, abs=5e-7)
    np.testing.assert_allclose(
        answer["layer_norm"][2], [0.999994, 0.999994, -0.999994, -0.999994], atol=5e-7
    )


def test_unscaled_weights() -> None:
    weights = CHAPTER.api(at("scaled=false"))["heads"][0]["weights"][2]
    np.testing.assert_allclose(weights, [0.211942, 0.211942, 0.576117], atol=5e-7)


def test_blocked_scores_are_null_and_their_weights_exactly_zero() -> None:
    for head in CHAPTER.api(DEFAULT)["heads"]:
        for i, row in enumerate(head["masked_scores"]):
            assert [score is None for score in row] == [j > i for j in range(3)]
            assert all(weight == 0 for weight in head["weights"][i][i + 1 :])
        assert all(isinstance(score, float) for row in head["scores"] for score in row)


def test_the_shape_of_the_answer() -> None:
    answer = CHAPTER.api(DEFAULT)
    assert set(answer) == {
        *("inputs", "heads", "concat", "output"),
        *("residual_sum", "mean", "variance", "layer_norm"),
    }
    for head in answer["heads"]:
        assert list(head) == [
            *("Q", "K", "V", "scores", "scaled_scores", "masked_scores", "weights", "output")
        ]
    json.dumps(answer, allow_nan=False)


def test_every_state_of_the_worked_example() -> None:
    """All 24 states agree with the script that knows nothing of this package, to 1e-12."""
    document = json.loads((WORKED_EXAMPLES / EXAMPLE / "states.json").read_text(encoding="utf-8"))
    assert len(document["states"]) == 24
    for state in document["states"]:
        x = EDITED if state["final_row"] == "edited" else DEFAULT.x
        answer = CHAPTER.api(replace(DEFAULT, x=x, mask=state["mask"], scaled=state["scaled"]))
        row = state["position"] - 1
        for name in ("concat", "output", "residual_sum", "mean", "variance", "layer_norm"):
            np.testing.assert_allclose(answer[name][row], state[name], rtol=0, atol=1e-12)
        for found, head in zip(answer["heads"], state["heads"], strict=True):
            np.testing.assert_allclose(found["Q"], head["Q"], rtol=0, atol=1e-12)
            np.testing.assert_allclose(found["weights"][row], head["weights"], rtol=0, atol=1e-12)
            np.testing.assert_allclose(found["output"][row], head["output"], rtol=0, atol=1e-12)
            blocked = [score is None for score in found["masked_scores"][row]]
            assert blocked == [score is None for score in head["scores"]]


def test_case_9_the_future_at_its_largest_does_not_reach_the_past() -> None:
    before = CHAPTER.api(DEFAULT)
    after = CHAPTER.api(at("x3=1000000,1000000,1000000,1000000"))
    for name in ("concat", "output", "residual_sum", "mean", "variance", "layer_norm"):
        assert before[name][:2] == after[name][:2]  # floats, so to the last bit
    for old, new in zip(before["heads"], after["heads"], strict=True):
        assert old["weights"][:2] == new["weights"][:2]
    assert np.isfinite(after["layer_norm"]).all()


def test_case_1_layer_norm_of_one_and_three_zeros() -> None:
    """Position 1 attends to itself alone, so each head returns its value.

    From (½, 0, 0, 0) head 1 takes coordinates 3–4, (0, 0), and head 2 takes 1–2, (½, 0). Swapped,
    that is (½, 0, 0, 0), and added to the row it makes (1, 0, 0, 0).
    """
    answer = CHAPTER.api(at("x1=0.5,0,0,0&w_o=swapped"))
    assert answer["residual_sum"][0] == [1, 0, 0, 0]
    np.testing.assert_allclose(
        answer["layer_norm"][0], [1.732046, -0.577349, -0.577349, -0.577349], atol=5e-7
    )


def test_the_edited_future_reaches_position_2_only_without_the_mask() -> None:
    causal, edited = CHAPTER.api(DEFAULT), CHAPTER.api(at("x3=2,-1,1,0"))
    assert causal["concat"][1] == edited["concat"][1]
    before, after = CHAPTER.api(at("mask=all")), CHAPTER.api(at("mask=all&x3=2,-1,1,0"))
    np.testing.assert_allclose(
        before["concat"][1], [0.197776, 0.401112, 0.496510, 0.751745], atol=5e-7
    )
    np.testing.assert_allclose(
        after["concat"][1], [0.424025, 0.575975, 0.744765, 0.255235], atol=5e-7
    )


def test_averaging_erases_what_swapping_keeps() -> None:
    plain = CHAPTER.api(DEFAULT)["concat"][2]
    swapped = CHAPTER.api(at("w_o=swapped"))["output"][2]
    averaged = CHAPTER.api(at("w_o=averaged"))["output"][2]
    assert swapped == [*plain[2:], *plain[:2]]
    assert averaged[:2] == averaged[2:]
    np.testing.assert_allclose(averaged[0], (plain[0] + plain[2]) / 2)


# ── What the page says ───────────────────────────────────────────────────────────────────────────


def test_the_verdict_names_the_reason() -> None:
    first, second, third = lesson("x3=2,-1,1,0").changes.positions
    assert first.identical
    assert second.identical
    assert not third.identical
    assert second.headline == "Position 2: identical to the last bit"
    assert "forbidden key" in second.reason
    assert third.reason == "The edited row is its own input."


def test_the_prose_quotes_calculated_numbers() -> None:
    said = CHAPTER.context(CHAPTER.parse([]))["lesson"].said
    assert said["original"].text("head1.weights.3.3") == "0.503"
    assert said["unscaled"].text("head1.weights.3.3") == "0.576"
    assert said["edited"].text("head1.weights.2.1") == said["original"].text("head1.weights.2.1")
    assert said["all"].text("concat.2.1") == "0.198"
    assert said["edited_all"].text("concat.2.1") == "0.424"
    assert said["averaged"].text("output.3.1") == said["averaged"].text("output.3.3")
    assert said["constant"].text("layer_norm.1.1") == "0.000"
    assert said["huge"].text("head1.weights.3.3") == "1.000"
    for state in said.values():
        assert not CHAPTER.parse(parse_qsl(state.query, keep_blank_values=True)).problems


@pytest.mark.parametrize("mask", ["causal", "all"])
@pytest.mark.parametrize("scaled", ["true", "false"])
@pytest.mark.parametrize("position", [1, 2, 3])
def test_every_step_of_every_state_has_prose_and_formulas(
    mask: str, scaled: str, position: int
) -> None:
    now = CHAPTER.calculate(at(f"mask={mask}&scaled={scaled}&position={position}"))
    for number, title in enumerate(TITLES, start=1):
        found = step(now, position, number)
        assert found.title == title
        assert all(sentence.endswith(".") for sentence in found.prose)
        assert found.formulas
        for formula in found.formulas:
            ET.fromstring(formula.mathml)


def test_the_walk_notices_what_the_state_does() -> None:
    causal = CHAPTER.calculate(at("position=2"))
    assert "key 3 is struck out" in step(causal, 2, 5).prose[0]
    assert "nothing is struck out" in step(CHAPTER.calculate(at("mask=all")), 3, 5).prose[0]
    assert "adds nothing" in step(CHAPTER.calculate(DEFAULT), 3, 8).prose[1]
    assert "switched off" in step(CHAPTER.calculate(at("scaled=false")), 3, 4).prose[0]


def test_questions_follow_the_state() -> None:
    """By hand: query (1, 1) and key (1, 0) make 1, and 1/√2 = 0.7071; case 4 gives the offset."""
    original = lesson("guess1=0.7&guess2=0.9")
    first, second, third, fourth, fifth = original.questions
    assert first.answer == pytest.approx(0.7071, abs=1e-4)
    assert first.right is True
    assert second.answer == pytest.approx(0.503490, abs=1e-6)
    assert second.right is False
    assert third.answer == pytest.approx(2 / 3)
    assert third.right is None
    assert not third.revealed
    assert fourth.answer == pytest.approx(0.248255, abs=1e-6)
    assert fifth.answer == 0
    assert lesson("mask=all").questions[4].answer > 0
    assert lesson("reveal=3").questions[2].revealed


@pytest.mark.parametrize("show", ["head1.weights.3.2", "layer_norm.1.1", "X.2.3", "epsilon"])
def test_an_open_number_marks_what_it_was_made_of(show: str) -> None:
    found = lesson(f"show={show}")
    assert found.shown is not None
    assert found.shown.address == show
    assert dict(found.operands).keys() == found.marks.operands.keys()


# ── What the prose claims ────────────────────────────────────────────────────────────────────────


def test_without_a_mask_exchanged_rows_exchange_their_results() -> None:
    """§3.5: pairwise products and weighted sums know no order."""
    before = CHAPTER.calculate(at("mask=all"))
    order = [2, 0, 1]
    moved = tuple(DEFAULT.x[place] for place in order)
    after = CHAPTER.calculate(replace(DEFAULT, x=moved, mask="all"))
    np.testing.assert_allclose(after.layer_norm, before.layer_norm[order], rtol=0, atol=1e-12)


def test_a_score_adds_up_the_variances_of_its_products() -> None:
    """Every query and key with coordinates ±1, each equally likely: mean 0 and variance 1."""
    for d_k in (1, 2, 4):
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=d_k)))
        scores = (signs @ signs.T).ravel()
        assert scores.mean() == 0
        assert scores.var() == d_k
        assert (scores / np.sqrt(d_k)).var() == pytest.approx(1)


def test_weights_of_a_row_sum_to_1_and_those_of_a_column_need_not() -> None:
    weights = CHAPTER.calculate(DEFAULT).heads[0].weights
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert not np.isclose(weights.sum(axis=0), 1).any()


def test_a_row_of_one_number_becomes_beta() -> None:
    query = "x1=1,1,1,1&beta=0.5,-1,2,0&gamma=3,3,3,3"
    assert CHAPTER.calculate(at(query)).layer_norm[0].tolist() == [0.5, -1, 2, 0]


def test_scaling_shares_more_evenly_and_an_offset_shares_the_same() -> None:
    scaled, plain = CHAPTER.calculate(DEFAULT), CHAPTER.calculate(at("scaled=false"))
    assert scaled.heads[0].weights[2].max() < plain.heads[0].weights[2].max()
    assert lesson().questions[3].answer == pytest.approx(scaled.heads[0].weights[2, 0], abs=1e-15)


def test_the_moved_input_is_noticed_by_those_who_may_look() -> None:
    for mask, noticing in (("causal", {3}), ("all", {1, 2, 3})):
        chart = lesson(f"mask={mask}").sweep.charts[0]
        found = {place for place, line in enumerate(chart.lines, 1) if line.kind == "changed"}
        assert found == noticing
        assert all(max(line.values) == 0 for line in chart.lines if line.kind == "same")


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


def made(name: str, query: str = "") -> bytes:
    (download,) = [download for download in CHAPTER.downloads if download.name == name]
    return download.make(at(query))


def test_the_state_as_json_is_the_api() -> None:
    assert json.loads(made("state.json", "x3=2,-1,1,0")) == CHAPTER.api(at("x3=2,-1,1,0"))


def test_the_state_as_csv_has_every_number_once() -> None:
    rows = list(csv.DictReader(io.StringIO(made("state.csv").decode())))
    addresses = [row["address"] for row in rows]
    assert len(set(addresses)) == len(addresses)
    found = {row["address"]: row["value"] for row in rows}
    answer = CHAPTER.api(DEFAULT)
    assert float(found["head1.weights.3.1"]) == answer["heads"][0]["weights"][2][0]
    assert float(found["layer_norm.3.4"]) == answer["layer_norm"][2][3]
    assert found["head1.masked_scores.1.2"] == "blocked"


def test_the_24_states_as_csv_say_what_the_json_says() -> None:
    rows = list(csv.DictReader(io.StringIO(made("states.csv").decode())))
    states = {(r["final_row"], r["mask"], r["scaled"], r["position"]) for r in rows}
    assert len(states) == 24
    (row,) = [
        r
        for r in rows
        if (r["final_row"], r["mask"], r["scaled"], r["position"]) == ("edited", "all", "true", "2")
        and (r["matrix"], r["head"], r["column"]) == ("concat", "", "1")
    ]
    assert float(row["value"]) == pytest.approx(0.424025, abs=5e-7)


def test_the_moved_input_as_plotly_reads_it() -> None:
    figure = json.loads(made("sweep.json", "mask=all"))
    names = [trace["name"] for trace in figure["data"]]
    assert names == [f"position {i}" for i in (1, 2, 3)] + [f"key {j}" for j in (1, 2, 3)]


def test_the_picture_tells_its_numbers() -> None:
    picture = ET.fromstring(made("weights.svg"))
    words = " ".join("".join(element.itertext()) for element in picture.iter())
    assert "0.503 to key 3" in words
    assert "key 3 blocked" in words
    assert words.count("blocked") >= 6


def test_the_picture_in_pixels_has_letters() -> None:
    """Without its font resvg would leave the text out, and the file would be far smaller."""
    png = made("weights.png")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(png[start : start + 4]) for start in (16, 20))
    box = ET.fromstring(made("weights.svg")).attrib
    assert (width, height) == (2 * int(box["width"]), 2 * int(box["height"]))
    assert len(png) > 20_000


# ── Other worked examples ────────────────────────────────────────────────────────────────────────


def test_another_folder_is_another_example(tmp_path: Path) -> None:
    """Two positions, two coordinates, one head: the chapter speaks of whatever it is given."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "example.toml").write_text(
        "format = 1\ntitle = 'Small'\nX = [[1, 0], [0, 1]]\n"
        "[[heads]]\nW_Q = [[1], [0]]\nW_K = [[1], [0]]\nW_V = [[0, 0], [1, 2]]\n"
        "[[output_projections]]\nname = 'identity'\ntitle = 'Identity'\nnote = 'As it is.'\n"
        "W_O = [[1, 0], [0, 1]]\n",
        encoding="utf-8",
    )
    own = CHAPTER.languages.by_slug[EXAMPLE].example
    chapter = ThreePositions({EXAMPLE: own, "small": load_example(folder)})
    parsed = chapter.parse([("example", "small"), ("x2", "3,4")])
    assert not parsed.problems
    assert chapter.query(parsed.parameters) == "example=small&x2=3,4"
    answer = chapter.api(parsed.parameters)
    assert answer["inputs"]["X"] == [[1, 0], [3, 4]]
    found = chapter.context(parsed)["lesson"]
    assert len(found.heads) == 1
    assert [q.answer for q in found.questions]
    for number in range(1, len(TITLES) + 1):
        assert step(found.now, 2, number).formulas


def test_numbers_are_written_as_the_contract_says() -> None:
    pattern = re.compile(r"−?\d+\.\d{3}|−?\d\.\d\d×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|<span>blocked</span>")
    for head in lesson("x3=1000000,0.001,-2,0.5").heads:
        for matrix in head[1:]:
            for line in matrix.lines:
                for _, _, text in line.cells:
                    assert pattern.fullmatch(text), text
